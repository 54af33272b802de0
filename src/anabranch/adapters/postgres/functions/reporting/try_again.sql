-- Keep the attempts that did not end their task, and when the next one may begin. The caller holds their lanes. One for
-- which a worker has no handler leaves no row and gives its number back: its token is the fence.
create function app.try_again(_endings app.ending[], _closed bigint[]) returns void language plpgsql as $$
begin
    insert into app.attempts (lane, idx, attempt, session, ended, claimed_at, started_at, finished_at, error)
    select e.lane, e.idx, e.attempt, e.session,
           case e.ended when 'retry' then 'failed' when 'suspect' then 'lost' else e.ended end::app.attempt_end,
           e.claimed_at, e.started_at, app.now(), e.body
      from unnest(_endings) e
     where e.ended not in ('completed', 'referenced', 'failed', 'missing') and e.lane <> all(_closed);
    insert into app.due (lane, idx, attempt, failures, crashes, first_at, due_at, expires_at)
    select e.lane, e.idx, e.attempt - (e.ended = 'missing')::integer,
           least(e.failures + (e.ended in ('retry', 'timed_out'))::integer, 32767),
           case e.ended when 'crashed' then least(e.crashes + 1, 32767)
                        when 'suspect' then greatest(e.crashes, 1::smallint) else e.crashes end,
           e.first_at, e.due_at, e.first_at + app.seconds(l.total)
      from unnest(_endings) e
     cross join lateral (
           select (x.policy ->> 'total_timeout_seconds')::float as total from app.lanes x where x.id = e.lane limit 1) l
     where e.ended not in ('completed', 'referenced', 'failed') and e.lane <> all(_closed);
end;
$$;
