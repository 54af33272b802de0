-- Let a platform publish into a collection, or not any more; by its owner, or by an admin (_platform is null). False: there is
-- no such collection of that owner.
create function app.change_writer(_collection text, _writer text, _adds boolean, _platform text, _by text)
returns boolean language plpgsql as $$
begin
    perform from app.publication_keys k join app.collections c on c.id = k.key
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
    return true;
end;
$$;
