-- The versions of each handler that took part in making an item.
create function app.item_versions(_collection text, _item text) returns jsonb language sql stable as $$
    select coalesce(jsonb_object_agg(x.handler, x.versions), '{}')
      from (select h.handler, jsonb_agg(h.version order by h.version) as versions
              from app.item_handlers h where h.collection = _collection and h.item = _item
             group by h.handler) x;
$$;
