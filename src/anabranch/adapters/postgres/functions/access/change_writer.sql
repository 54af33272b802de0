-- Let a platform publish into a collection, or not any more; by its owner, or by an admin (_platform is null). False: there is
-- no such collection of that owner.
create function app.change_writer(_collection text, _writer text, _adds boolean, _platform text, _by text,
                                  _correlation_id text default null)
returns boolean language plpgsql as $$
declare
    _owner text;
begin
    select coalesce(k.owner, 'default') into _owner from app.publication_keys k join app.collections c on c.id = k.key
      where k.kind = 'collection' and k.key = _collection and (_platform is null or k.owner = _platform) for update of k;
    if not found then
        return false;
    end if;
    if _adds then
        insert into app.collection_writers (collection, platform, added_by, added_at)
        values (_collection, _writer, _by, app.now()) on conflict do nothing;
    else
        delete from app.collection_writers w where w.collection = _collection and w.platform = _writer;
    end if;
    if found then
        perform app.audit_change(_owner, _by, case when _adds then 'writer.added' else 'writer.removed' end,
                                  jsonb_build_object('collection', _collection, 'writer', _writer), _correlation_id);
    end if;
    return true;
end;
$$;
