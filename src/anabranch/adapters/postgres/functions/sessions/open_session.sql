-- Begin a session: one process from its start to its end. _versions: of each of its handlers; _schema_release: that of the
-- schema which the process was built for; _connections: how many it takes of the server at most; _breakers: those that a
-- worker declares, as app.declare_breakers takes them. AN003 while a restore or a reset holds all processes off the database.
create function app.open_session(
    _kind app.session_kind, _host text, _pid integer, _member text, _queues text[], _slots integer, _lease interval,
    _handlers text[] default null, _versions jsonb default null, _schema_release integer default null,
    _connections integer default null, _breakers jsonb default null
) returns bigint language plpgsql as $$
declare
    _session bigint;
begin
    if not pg_try_advisory_xact_lock_shared(7093847162906) then
        raise exception 'the database is being restored or reset' using errcode = 'AN003';
    end if;
    insert into app.sessions (kind, host, pid, member, queues, slots, lease, began_at, beat_at, handlers, schema_release, connections)
    values (_kind, _host, _pid, _member, _queues, _slots, _lease, app.now(), app.now(), _handlers, _schema_release, _connections)
    returning id into _session;
    if _versions is not null then
        insert into app.session_versions (session, versions) values (_session, _versions);
    end if;
    if _breakers is not null then
        perform app.declare_breakers(_handlers, _queues, _breakers);
    end if;
    return _session;
end
$$;
