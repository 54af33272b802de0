-- Change what readers see of some items of a collection: publish, withdraw, restore or roll back, as
-- app.act_on_publications says; no row where there is no such collection that the owner, or the platform of the job, may
-- write to. _alone: the whole catalog is locked, because pgstac makes or changes a partition for them. Items with `keep_same`,
-- all of them or none, stay as they are where they show the same content, whichever job made it; but each revision of a
-- release publishes its own. Returns the collection's document; whether these are its first items; the
-- publications that were made; the ids of the items that were as they are given already; the boxes and times of what the
-- others showed before; and what these show now, where the caller does not know it.
create function app.change_items(
    _collection text, _action app.publication_action, _items jsonb, _alone boolean, _job_id text, _owner text default null,
    _actor text default null, _reason text default null
) returns table (document jsonb, first boolean, made jsonb, same text[], former jsonb, shown jsonb)
language plpgsql as $$
declare
    _document jsonb;
    _first boolean;
    _made uuid[];
    _former jsonb;
    _kept text[] := '{}';
begin
    if _alone then
        perform app.lock_catalog();
    else
        perform app.lock_collection(_collection);
    end if;
    select c.document into _document from app.collections c
     where c.id = _collection and app.may_write(coalesce(app.job_platform(_job_id), _owner), _collection);
    if not found then
        return;
    end if;
    _first := not exists (select from app.catalog_items i where i.collection = _collection);
    if (_items -> 0 -> 'keep_same')::boolean and not exists (select from app.find_revision(_job_id)) then
        _kept := app.keep_same(_collection, _items, _job_id);
        _items := (select coalesce(jsonb_agg(x.item), '[]')
                     from jsonb_array_elements(_items) x(item) where x.item ->> 'id' <> all(_kept));
    end if;
    _made := app.act_on_publications(
        'item', _action,
        case when _items -> 0 ? 'key' then _items else
            (select jsonb_agg(x.item || jsonb_build_object('key', _collection || '/' || (x.item ->> 'id')))
               from jsonb_array_elements(_items) x(item)) end,
        _job_id, _owner, _actor, _reason);
    with hidden as (
        delete from app.catalog_items i using app.publications p
         where p.id = any(_made) and i.collection = _collection and i.id = split_part(p.key, '/', 2)
        returning i.document)
    select coalesce(jsonb_agg(app.item_extent(h.document)), '[]') into _former from hidden h;
    perform app.show_items(_made);
    return query
    select _document, _first,
           (select coalesce(jsonb_agg(jsonb_build_object('id', split_part(p.key, '/', 2), 'number', p.number, 'action', p.action,
                                                         'source', p.source, 'shows', s.number) order by p.key), '[]')
              from app.publications p join app.publications s on s.id = p.source where p.id = any(_made)),
           case when cardinality(_made) = jsonb_array_length(_items) then _kept else
           _kept || array(select x.id
                   from jsonb_to_recordset(_items) x(id text, body jsonb)
                  cross join lateral (
                        select from app.publication_keys k
                         where k.kind = 'item' and k.key = _collection || '/' || x.id and k.current <> all(_made) offset 0) k
                  cross join lateral (
                        select from app.catalog_items i
                         where i.collection = _collection and i.id = x.id and i.document = x.body offset 0) i) end,
           _former,
           case when _action <> 'publish' then
               (select jsonb_agg(p.body) from app.current_publications p where p.id = any(_made)) end;
end;
$$;
