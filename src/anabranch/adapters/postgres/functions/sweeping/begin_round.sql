-- Begin a round of the sweeper: mark silent sessions dead (E21). None expires until one lease after the server's start,
-- nor when the sweeper itself was away for a while. Returns how many were marked, or null while another sweeper is at it.
-- The duty ticks when the round is done, by app.end_round.
create function app.begin_round(_session bigint, _every interval, _batch integer) returns integer language plpgsql as $$
declare
    _since timestamptz;
begin
    perform app.assert_read_committed();
    _since := app.watch('sweeper', _session, _every);
    return case when _since is not null then
        app.expire_sessions(greatest(pg_postmaster_start_time(), _since), _batch) end;
end;
$$;
