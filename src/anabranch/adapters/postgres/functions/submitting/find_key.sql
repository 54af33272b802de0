-- What authentication needs of a key; whether it has expired, the database's clock says (E18). It writes nothing, and is
-- volatile all the same: what is not, the reader may call, and the hash is not for the reader.
create function app.find_key(_key_id text)
returns table (
    digest bytea, name text, owner text, scope app.key_scope, expired boolean, revoked boolean, unnoted boolean
) language sql volatile as $$
    select k.digest, k.name, k.owner, k.scope, coalesce(k.expires_at <= app.now(), false), k.revoked_at is not null,
           coalesce(k.used_at < app.now() - interval '1 minute', true)
      from app.keys k where k.key_id = _key_id;
$$;
