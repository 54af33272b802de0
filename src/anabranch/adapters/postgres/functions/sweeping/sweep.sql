-- Begin a round of the sweeper: mark silent sessions dead (E21). Nobody is expired until one lease after the server's
-- start, nor when the sweeper itself was away for a while. Answers how many were marked, or null when another sweeper is
-- at it. The duty ticks when the round is done, by app.end_round; or now (_ticks), for a process of the release before.
create function app.sweep(_session bigint, _every interval, _batch integer, _ticks boolean default true)
returns integer language plpgsql as $$
declare
    _since timestamptz;
begin
    perform app.assert_read_committed();
    _since := case when _ticks then app.tick('sweeper', _session, _every)
                   else app.watch('sweeper', _session, _every) end;
    return case when _since is not null then
        app.expire_sessions(greatest(pg_postmaster_start_time(), _since), _batch) end;
end;
$$;
