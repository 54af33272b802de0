-- Tick the sweeper's duty after a round, or a part of a long one (O2), with what failed in it and why: {act: reason}, or
-- null where all went well. Health shows it.
create function app.end_round(_session bigint, _every interval, _trouble jsonb) returns boolean language plpgsql as $$
begin
    perform app.assert_read_committed();
    if app.tick('sweeper', _session, _every) is null then
        return false;
    end if;
    update app.duties set trouble = _trouble where name = 'sweeper';
    return true;
end;
$$;
