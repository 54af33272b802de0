-- What readers see of some items of a collection, with the publication that brought it.
create function app.find_shown(_collection text, _ids text[]) returns table (publication uuid, document jsonb)
language sql stable as $$
    select p.source, i.document
      from unnest(_ids) x(id)
      join app.catalog_items i on i.collection = _collection and i.id = x.id
      join app.publication_keys k on k.kind = 'item' and k.key = _collection || '/' || x.id
      join app.publications p on p.id = k.current;
$$;
