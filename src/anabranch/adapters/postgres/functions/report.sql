-- End attempts, a batch in one transaction. Each report is answered `applied`, `duplicate` (this session ended this
-- attempt before: treat as applied) or `stale` (the attempt is not the current one, or its lane is closed: nothing
-- changes but a note; E3). A lane whose last task ended, or that failed beyond what it tolerates, is closed and gives
-- its right once (E6). Locks claims by key, then lanes by id, never the job's row: the joins are pinned to loops over
-- the sorted reports, and lanes are named by an array, which is whole before the first of them is locked, because two
-- batches that meet must lock in one order; and `session + 0` keeps the planner from
-- finding each claim among all of its session's.
-- Ends: completed; referenced: completed, and the body says where the result is; failed, for good; retry: failed, again
-- after its delay; crashed: again, charged as a crash; suspect: again, marked so that it runs alone; timed_out: again,
-- charged as a failure; handed_back and lost: again, free of charge. A report may name another session: the sweeper ends
-- what others held, all of them in one batch, because two batches in one transaction would lock lanes out of order.
create function app.report(_session bigint, _reports jsonb, out answers text[], out rights bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off as $$
begin
    perform app.assert_read_committed();
    with given as materialized (
        select * from rows from (jsonb_to_recordset(_reports) as (
            session bigint, lane bigint, idx integer, attempt integer, ended text, body jsonb, delay float, ran float,
            log text, metrics jsonb)) with ordinality
            as g(session, lane, idx, attempt, ended, body, delay, ran, log, metrics, place)),
    released as (
        delete from app.claims c using (select * from given order by lane, idx) g
         where c.lane = g.lane and c.idx = g.idx and c.attempt = g.attempt
           and c.session + 0 = coalesce(g.session, _session)
        returning g.*, c.session as holder, c.failures, c.crashes, c.first_at, c.claimed_at),
    locked as materialized (
        select l.id, l.queue, l.closed from app.lanes l where l.id = any(array(select distinct r.lane from released r))
         order by l.id for update),
    current as materialized (
        select r.*, l.queue, l.closed, not l.closed and r.ended in ('completed', 'referenced', 'failed') as final,
               app.now() - make_interval(secs => r.ran) as started_at
          from released r join locked l on l.id = r.lane),
    ended as (
        insert into app.outcomes (lane, idx, outcome, attempt, session, failures, crashes,
                                  claimed_at, started_at, finished_at, result, reference, error)
        select c.lane, c.idx,
               case when c.closed then 'cancelled' when c.ended = 'referenced' then 'completed' else c.ended end::app.outcome,
               c.attempt, c.holder, c.failures + (c.ended = 'failed')::integer, c.crashes,
               c.claimed_at, c.started_at, app.now(),
               case when c.final and c.ended = 'completed' then c.body end,
               case when c.final and c.ended = 'referenced' then c.body end,
               case when c.ended = 'failed' then c.body end
          from current c where c.final or c.closed),
    kept as (
        insert into app.attempts (lane, idx, attempt, session, ended, claimed_at, started_at, finished_at, error)
        select c.lane, c.idx, c.attempt, c.holder,
               case c.ended when 'retry' then 'failed' when 'suspect' then 'lost' else c.ended end::app.attempt_end,
               c.claimed_at, c.started_at, app.now(), c.body
          from current c where not c.final and not c.closed),
    again as (
        insert into app.due (lane, idx, queue, attempt, failures, crashes, first_at, due_at)
        select c.lane, c.idx, c.queue, c.attempt, c.failures + (c.ended in ('retry', 'timed_out'))::integer,
               case c.ended when 'crashed' then c.crashes + 1 when 'suspect' then greatest(c.crashes, 1::smallint)
                            else c.crashes end,
               c.first_at, app.now() + make_interval(secs => coalesce(c.delay, 0))
          from current c where not c.final and not c.closed),
    traced as (
        insert into app.traces (lane, idx, attempt, log, metrics)
        select c.lane, c.idx, c.attempt, c.log, c.metrics from current c
         where c.log is not null or c.metrics is not null),
    counted as (
        update app.lanes l
           set running = l.running - t.ended, remaining = l.remaining - t.final, failed = l.failed + t.failed,
               closed = l.remaining - t.final = 0 or l.failed + t.failed > l.tolerated
          from (select c.lane, count(*) as ended, count(*) filter (where c.final) as final,
                       count(*) filter (where c.ended = 'failed') as failed
                  from current c where not c.closed group by c.lane order by c.lane) t
         where l.id = t.lane
        returning l.id, l.closed)
    select (select array_agg(case when c.closed then 'stale' when c.place is not null then 'applied' end order by g.place)
              from given g left join current c using (place)),
           (select array_agg(app.make_right(n.id, _session)) from counted n where n.closed)
      into answers, rights;
    if array_position(answers, null) is not null then
        answers := app.answer_unmatched(_session, _reports, answers);
        rights := rights || app.rights_of_duplicates(_session, _reports, answers);
    end if;
    answers := coalesce(answers, '{}');
    rights := array_remove(coalesce(rights, '{}'), null);
end;
$$;
