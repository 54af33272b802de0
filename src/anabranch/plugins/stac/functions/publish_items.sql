-- Record items of a collection, and the outputs behind them. An item that is as it was stays untouched; of one that
-- changed, the outputs of before are no longer published. Answers the collection's document, whether these are its first
-- items, and the ids of those that changed; no row where there is no such collection. _alone: the whole catalog is locked,
-- because pgstac makes or changes a partition for them. An item
-- that has no manifest yet gets the one that is given; processes of earlier releases give none.
create function app.publish_items(_collection text, _job_id text, _items jsonb, _alone boolean default true)
returns table (document jsonb, first boolean, changed text[]) language plpgsql as $$
declare
    _document jsonb;
    _first boolean;
    _changed text[];
    _signed jsonb;
begin
    if _alone then
        perform app.lock_catalog();
    else
        perform app.lock_collection(_collection);
    end if;
    select c.document into _document from app.collections c where c.id = _collection;
    if not found then
        return;
    end if;
    _first := not exists (select from app.catalog_items i where i.collection = _collection);
    with written as (
        insert into app.catalog_items as i (collection, id, document, job_id, published_at)
        select _collection, x.item ->> 'id', x.item -> 'document', _job_id, app.now()
          from jsonb_array_elements(_items) x(item)
        on conflict (collection, id) do update
           set document = excluded.document, job_id = excluded.job_id, published_at = excluded.published_at
         where i.document is distinct from excluded.document
        returning i.id)
    select coalesce(array_agg(w.id), '{}') into _changed from written w;
    delete from app.outputs o where o.collection = _collection and o.item = any(_changed);
    insert into app.outputs (job_id, name, kind, tier, key, media_type, size, sha256, collection, item)
    select _job_id, o.name, o.kind, o.tier, o.key, o.media_type, o.size, o.sha256, _collection, x.item ->> 'id'
      from jsonb_array_elements(_items) x(item)
     cross join lateral jsonb_to_recordset(x.item -> 'outputs')
           o(name text, kind text, tier text, key text, media_type text, size bigint, sha256 text)
     where x.item ->> 'id' = any(_changed);
    delete from app.manifests m where m.collection = _collection and m.item = any(_changed);
    delete from app.item_handlers h where h.collection = _collection and h.item = any(_changed);
    select coalesce(jsonb_agg(x.item), '[]') into _signed
      from jsonb_array_elements(_items) x(item)
     where x.item ? 'manifest' and not exists (
           select from app.manifests m where m.collection = _collection and m.item = x.item ->> 'id');
    insert into app.signing_keys (id, public_key, first_used_at)
    select distinct x.item #>> '{manifest,key,id}', x.item #>> '{manifest,key,public_key}', app.now()
      from jsonb_array_elements(_signed) x(item)
        on conflict do nothing;
    insert into app.manifests (collection, item, envelope, signing_key)
    select _collection, x.item ->> 'id', x.item #>> '{manifest,envelope}', x.item #>> '{manifest,key,id}'
      from jsonb_array_elements(_signed) x(item);
    insert into app.item_handlers (collection, item, handler, version)
    select _collection, x.item ->> 'id', h.handler, v.version
      from jsonb_array_elements(_signed) x(item)
     cross join lateral jsonb_each(x.item #> '{manifest,handlers}') h(handler, versions)
     cross join lateral jsonb_array_elements_text(h.versions) v(version)
        on conflict do nothing;
    return query select _document, _first, _changed;
end;
$$;
