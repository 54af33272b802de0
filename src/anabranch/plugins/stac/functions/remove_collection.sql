-- Remove a collection that has no items. False: there is none. AN015: it has items.
create function app.remove_collection(_collection text) returns boolean language plpgsql as $$
begin
    perform app.lock_catalog();
    if exists (select from app.catalog_items i where i.collection = _collection) then
        raise exception 'collection % has items', _collection using errcode = 'AN015';
    end if;
    delete from app.collections c where c.id = _collection;
    return found;
end;
$$;
