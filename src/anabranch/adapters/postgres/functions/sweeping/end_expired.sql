-- Fail tasks of these lanes whose total time passed while they waited for their next attempt (E8): the sweeper takes them
-- into its own hand, as the attempt they had, and ends them; but not while a breaker keeps them waiting, nor before its time
-- is added to theirs (app.let_go). Returns how many.
create function app.end_expired(
    _session bigint, _batch integer, _from bigint default 0, _to bigint default 9223372036854775807
) returns integer language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    _lane app.lanes;
    _next timestamptz;
    _taken jsonb;
    _all jsonb := '[]';
begin
    lock table app.claims in row exclusive mode;
    for _lane in
        select l.* from app.lanes l
         where not l.closed and coalesce(l.held, '') not like 'breaker %' and not app.is_broken(l.queue, l.handler) and l.id = any(array(
            select d.lane from app.due d
             cross join lateral (select from app.lanes x
                                  where x.id = d.lane and not x.closed and coalesce(x.held, '') not like 'breaker %'
                                    and not app.is_broken(x.queue, x.handler) limit 1) l
             where d.expires_at < app.now() and d.lane between _from and _to order by d.expires_at limit _batch))
         order by l.id for update
    loop
        with expired as (
            delete from app.due d
             where d.ctid = any(array(
                select x.ctid from app.due x where x.lane = _lane.id and x.expires_at < app.now() limit _batch))
            returning d.*),
        taken as (
            insert into app.claims (lane, idx, attempt, session, token, failures, crashes, first_at, claimed_at)
            select e.lane, e.idx, e.attempt, _session, 0, e.failures, e.crashes, e.first_at, app.now() from expired e)
        select coalesce(jsonb_agg(jsonb_build_object(
                   'session', _session, 'lane', e.lane, 'idx', e.idx, 'attempt', e.attempt, 'token', 0,
                   'ended', 'failed',
                   'body', app.total_timeout((_lane.policy ->> 'total_timeout_seconds')::float))), '[]')
          into _taken from expired e;
        select min(d.due_at) into _next from app.due d where d.lane = _lane.id;
        update app.lanes l
           set running = l.running + jsonb_array_length(_taken), due_at = _next,
               ripe = coalesce(_next <= app.now(), false)
         where l.id = _lane.id;
        _all := _all || _taken;
    end loop;
    return app.release(_all);
end;
$$;
