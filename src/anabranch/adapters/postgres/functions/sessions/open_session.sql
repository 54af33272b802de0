-- Begin a session: one process from its start to its end. _versions: of each of its handlers; _schema_release: that of the
-- schema which the process was built for.
create function app.open_session(
    _kind app.session_kind, _host text, _pid integer, _member text, _queues text[], _slots integer, _lease interval,
    _handlers text[] default null, _versions jsonb default null, _schema_release integer default null
) returns bigint language sql as $$
    with opened as (
        insert into app.sessions (kind, host, pid, member, queues, slots, lease, began_at, beat_at, handlers, schema_release)
        values (_kind, _host, _pid, _member, _queues, _slots, _lease, app.now(), app.now(), _handlers, _schema_release)
        returning id),
    known as (
        insert into app.session_versions (session, versions)
        select o.id, _versions from opened o where _versions is not null)
    select o.id from opened o;
$$;
