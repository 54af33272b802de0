-- End a session for good; what it still holds goes back with the next sweep.
create function app.end_session(_session bigint, _reason text) returns boolean language sql as $$
    update app.sessions set dead_at = app.now(), end_reason = _reason
     where id = _session and dead_at is null
    returning true;
$$;
