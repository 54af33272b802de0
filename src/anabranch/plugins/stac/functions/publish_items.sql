-- For processes of release 51 and earlier: publish items of a collection.
create function app.publish_items(_collection text, _job_id text, _items jsonb, _alone boolean default true)
returns table (document jsonb, first boolean, changed text[]) language sql as $$
    select c.document, c.first, array(select m ->> 'id' from jsonb_array_elements(c.made) m)
      from app.change_items(
               _collection, 'publish',
               (select jsonb_agg(x.item || jsonb_build_object('body', x.item -> 'document'))
                  from jsonb_array_elements(_items) x(item)),
               _alone, _job_id) c;
$$;
