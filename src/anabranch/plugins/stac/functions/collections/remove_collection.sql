-- Remove a collection that has no items. False: there is none. AN015: it has items.
create function app.remove_collection(_collection text, _actor text default null, _reason text default null)
returns boolean language plpgsql as $$
declare
    _document jsonb;
begin
    perform app.lock_catalog();
    if exists (select from app.catalog_items i where i.collection = _collection) then
        raise exception 'collection % has items', _collection using errcode = 'AN015';
    end if;
    delete from app.collections c where c.id = _collection returning c.document into _document;
    if not found then
        return false;
    end if;
    delete from app.collection_writers w where w.collection = _collection;
    perform app.record_collection(_collection, 'withdraw', _document, null, _actor, _reason);
    return true;
end;
$$;
