-- The boxes and times of the items of a collection.
create function app.list_extents(_collection text) returns jsonb language sql stable as $$
    select coalesce(jsonb_agg(app.item_extent(i.document)), '[]') from app.catalog_items i where i.collection = _collection;
$$;
