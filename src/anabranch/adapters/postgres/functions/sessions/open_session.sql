-- Begin a session: one process from its start to its end.
create function app.open_session(
    _kind app.session_kind, _host text, _pid integer, _member text, _queues text[], _slots integer, _lease interval,
    _handlers text[] default null
) returns bigint language sql as $$
    insert into app.sessions (kind, host, pid, member, queues, slots, lease, began_at, beat_at, handlers)
    values (_kind, _host, _pid, _member, _queues, _slots, _lease, app.now(), app.now(), _handlers)
    returning id;
$$;
