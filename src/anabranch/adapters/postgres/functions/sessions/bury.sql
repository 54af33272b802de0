-- Mark sessions of a stack that was seen to die, one process of it or all, and give back what they held, so that a crash
-- costs a moment and not a lease. A member is known by its stack and its pid, for a host's name may be another's too.
-- Answers how many sessions there were.
create function app.bury(_members text) returns integer language plpgsql as $$
declare
    _buried integer;
begin
    perform app.assert_read_committed();
    update app.sessions set dead_at = app.now(), end_reason = 'process died'
     where (member = _members or starts_with(member, _members || '/')) and dead_at is null;
    get diagnostics _buried = row_count;
    perform app.release_dead(1000);
    return _buried;
end;
$$;
