-- Keys as they may be shown, the newest first, before a cursor; or the one with this id.
create function app.list_keys(_key_id text, _before bigint, _limit integer)
returns table (
    id bigint, key_id text, name text, platform text, scope app.key_scope, state text, made_at timestamptz, made_by text,
    expires_at timestamptz, used_at timestamptz, revoked_at timestamptz, revoked_by text
) language sql stable as $$
    select k.id, k.key_id, k.name, k.platform, k.scope,
           case when k.revoked_at is not null then 'revoked' when k.expires_at <= app.now() then 'expired'
                else 'active' end,
           k.made_at, k.made_by, k.expires_at, k.used_at, k.revoked_at, k.revoked_by
      from app.keys k
     where (_key_id is null or k.key_id = _key_id) and (_before is null or k.id < _before)
     order by k.id desc limit _limit;
$$;
