-- Note that a duty is being done (O2) that one process at a time does. False: another does it now.
create function app.note_turn(_name text, _session bigint, _every interval) returns boolean language plpgsql as $$
begin
    perform app.assert_read_committed();
    return app.has_turn(_name, _session, _every) and app.tick(_name, _session, _every) is not null;
end;
$$;
