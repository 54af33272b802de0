-- Mark the sessions of a process that was seen to die and give back what they held, so that a local crash costs a
-- moment and not a lease. Answers how many sessions there were.
create function app.bury(_host text, _pid integer) returns integer language plpgsql as $$
declare
    _buried integer;
begin
    perform app.assert_read_committed();
    update app.sessions set dead_at = app.now(), end_reason = 'process died'
     where host = _host and pid = _pid and dead_at is null;
    get diagnostics _buried = row_count;
    perform app.release_dead(1000);
    return _buried;
end;
$$;
