-- The documents of some items of a collection, as readers see them.
create function app.list_documents(_collection text, _ids text[]) returns table (document jsonb) language sql stable as $$
    select i.document from app.catalog_items i where i.collection = _collection and i.id = any(_ids);
$$;
