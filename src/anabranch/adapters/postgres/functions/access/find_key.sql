-- What authentication needs to know of a key; the database's clock decides whether it has expired (E18). Volatile on purpose,
-- though it writes nothing: the reader role may call functions that are stable, and must not see the hash.
create function app.find_key(_key_id text)
returns table (
    digest bytea, name text, platform text, scope app.key_scope, expired boolean, revoked boolean, unnoted boolean
) language sql volatile as $$
    select k.digest, k.name, k.platform, k.scope, coalesce(k.expires_at <= app.now(), false), k.revoked_at is not null,
           coalesce(k.used_at < app.now() - interval '1 minute', true)
      from app.keys k where k.key_id = _key_id;
$$;
