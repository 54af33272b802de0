-- Keep a new key by the hash of its secret (S5). Keys that ended a month ago are removed, so that the table doesn't
-- grow forever (O5).
create function app.make_key(
    _key_id text, _digest bytea, _name text, _platform text, _scope app.key_scope, _lasts interval, _made_by text,
    _correlation_id text default null
) returns void language sql as $$
    delete from app.keys where least(revoked_at, expires_at) < app.now() - interval '30 days';
    insert into app.keys (key_id, digest, name, platform, scope, made_at, made_by, expires_at)
    values (_key_id, _digest, _name, _platform, _scope, app.now(), _made_by, app.now() + _lasts);
    select app.audit_change(_platform, _made_by, 'key.made',
                             jsonb_build_object('key', _key_id, 'name', _name, 'scope', _scope), _correlation_id);
$$;
