-- Mark the sessions of a stack whose processes died (`stack`), or of one process of it (`stack/pid`), and return their
-- tasks at once, so that a crash costs a moment and not a lease. Returns how many sessions there were.
create function app.end_member_sessions(_members text) returns integer language plpgsql as $$
declare
    _ended integer;
begin
    perform app.assert_read_committed();
    update app.sessions set dead_at = app.now(), end_reason = 'process died'
     where (member = _members or starts_with(member, _members || '/')) and dead_at is null;
    get diagnostics _ended = row_count;
    perform app.release_dead(1000);
    return _ended;
end;
$$;
