-- Whether a platform may publish into a collection: it owns it or is one of its writers, or nobody is known to own it.
-- Null: whoever acts may.
create function app.may_write(_platform text, _collection text) returns boolean language sql stable as $$
    select _platform is null or app.may_read(_platform, _collection, false)
        or not exists (select from app.publication_keys k
                        where k.kind = 'collection' and k.key = _collection and k.owner is not null);
$$;
