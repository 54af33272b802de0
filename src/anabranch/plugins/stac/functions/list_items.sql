-- The items of a collection with these ids, as they are shown.
create function app.list_items(_collection text, _ids text[]) returns jsonb language sql stable as $$
    select coalesce(jsonb_agg(i.document), '[]') from app.catalog_items i
     where i.collection = _collection and i.id = any(_ids);
$$;
