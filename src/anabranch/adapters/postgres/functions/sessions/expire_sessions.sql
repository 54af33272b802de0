-- Mark as dead the sessions that missed their lease.
create function app.expire_sessions(_since timestamptz, _batch integer) returns integer language sql as $$
    with silent as (
        select s.id from app.sessions s
         where s.dead_at is null and s.beat_at + s.lease < app.now() and _since + s.lease < app.now()
         limit _batch for update skip locked),
    marked as (
        update app.sessions s set dead_at = app.now(), end_reason = 'lease ended'
          from silent where s.id = silent.id returning 1)
    select count(*)::integer from marked;
$$;
