-- Remove keys that have expired, the oldest first and at most so many (O5). Returns how many.
create function app.purge_idempotency_keys(_batch integer) returns integer language sql as $$
    with old as (
        select k.scope, k.key from app.idempotency_keys k
         where k.expires_at <= app.now() order by k.expires_at limit _batch for update skip locked),
    removed as (
        delete from app.idempotency_keys k using old where k.scope = old.scope and k.key = old.key returning 1)
    select count(*)::integer from removed;
$$;
