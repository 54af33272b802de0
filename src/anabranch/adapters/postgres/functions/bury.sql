-- Mark the sessions of a process that was seen to die, so that a local crash costs a second and not a lease.
create function app.bury(_host text, _pid integer) returns integer language sql as $$
    with buried as (
        update app.sessions set dead_at = app.now(), end_reason = 'process died'
         where host = _host and pid = _pid and dead_at is null
        returning 1)
    select count(*)::integer from buried;
$$;
