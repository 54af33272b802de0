-- End attempts, a batch in one transaction. Each report is answered `applied`, `duplicate` (this session ended this
-- attempt before: treat as applied) or `stale` (the attempt is not the current one, or its lane is closed: nothing
-- changes but a note; E3). A lane whose last task ended, or that failed beyond what it tolerates, is closed and gives
-- its right once (E6). Locks claims by key, then lanes by id, then rights, never the job's row: two batches that meet
-- must lock in one order; breakers come last. Claims are found by their key one by one, whatever the planner knows of a table that fills
-- and empties, and removed by their place.
-- Ends: completed; referenced: completed, and the body says where the result is; failed, for good; retry: failed, again
-- after its delay; crashed: again, charged as a crash; suspect: again, marked so that it runs alone; timed_out: again,
-- charged as a failure; handed_back and lost: again, free of charge; missing: again, and not even an attempt, for the
-- worker has no handler for it. A report may name another session: the sweeper ends
-- what others held (and no token: it has the row before it), all of them in one batch, because two batches in one transaction would lock lanes out of order.
create function app.report(_session bigint, _reports jsonb, out answers text[], out rights bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_material = off set enable_memoize = off set jit = off as $$
declare
    _endings app.ending[];
    _rows tid[];
    _lanes bigint[];
    _closed bigint[];
    _again boolean;
    _traced boolean;
    _handed jsonb;
    _handing bigint[];
begin
    perform app.assert_read_committed();
    select array_agg((g.place, c.row, g.lane, g.idx, g.attempt, c.session,
                      case when g.ended = 'missing' and app.is_unhandled(g.lane, g.idx, c.first_at) then 'failed'
                           else g.ended end, g.body,
                      app.now() + case when g.ended = 'missing' then app.missing_delay(g.lane, g.idx, c.first_at, g.delay)
                                       else app.seconds(coalesce(g.delay, 0)) end,
                      coalesce(app.now() - make_interval(secs => g.ran), c.started_at), g.log, g.metrics,
                      c.failures, c.crashes, c.first_at, c.claimed_at)::app.ending),
           array_agg(c.row), array_agg(distinct g.lane),
           bool_or(g.ended not in ('completed', 'referenced', 'failed')), bool_or(coalesce(g.log, g.metrics::text) <> ''),
           jsonb_object_agg(g.lane || '-' || g.idx, g.handed) filter (where g.handed is not null),
           array_agg(distinct g.lane) filter (where g.handed is not null)
      into _endings, _rows, _lanes, _again, _traced, _handed, _handing
      from (select distinct on (r.lane, r.idx, r.attempt, r.token) r.*
              from rows from (jsonb_to_recordset(_reports) as (
                       session bigint, lane bigint, idx integer, attempt integer, token bigint, ended text, body jsonb,
                       delay float, ran float, log text, metrics jsonb, handed jsonb)) with ordinality
                   as r(session, lane, idx, attempt, token, ended, body, delay, ran, log, metrics, handed, place)
             order by r.lane, r.idx, r.attempt, r.token, r.place) g
     cross join lateral (
           select x.ctid as row, x.session, x.failures, x.crashes, x.first_at, x.claimed_at, x.started_at
             from app.claims x
            where x.lane = g.lane and x.idx = g.idx and x.attempt = g.attempt
              and x.session + 0 = coalesce(g.session, _session) and x.token = g.token
            limit 1 for update) c;
    if _endings is not null then
        perform app.remove_claims(_rows);
        select coalesce(array_agg(l.id) filter (where l.closed), '{}') into _closed
          from (select x.id, x.closed from app.lanes x where x.id = any(_lanes) order by x.id for update) l;
        insert into app.outcomes (lane, idx, outcome, attempt, session, failures, crashes, claimed_at, started_at,
                                  finished_at, result, reference, error, forced, handed)
        select e.lane, e.idx,
               case when e.lane = any(_closed) then 'cancelled' when e.ended = 'referenced' then 'completed'
                    else e.ended end::app.outcome,
               e.attempt, e.session, least(e.failures + (e.ended = 'failed')::integer, 32767), e.crashes, e.claimed_at, e.started_at,
               app.now(),
               case when e.ended = 'completed' and e.lane <> all(_closed) then e.body end,
               case when e.ended = 'referenced' and e.lane <> all(_closed) then e.body end,
               case when e.ended = 'failed' then e.body end, _session is null,
               case when e.ended <> 'failed' and e.lane <> all(_closed) then _handed -> (e.lane || '-' || e.idx) end
          from unnest(_endings) e where e.ended in ('completed', 'referenced', 'failed') or e.lane = any(_closed);
        if _handing is not null then
            update app.lanes l set handed = true where l.id = any(_handing) and not l.handed;
        end if;
        if _again then
            perform app.try_again(_endings, _closed);
        end if;
        if _traced then
            insert into app.traces (lane, idx, attempt, log, metrics)
            select e.lane, e.idx, e.attempt, e.log, e.metrics from unnest(_endings) e
             where e.log is not null or e.metrics is not null
                on conflict (lane, idx, attempt) do update set log = excluded.log, metrics = excluded.metrics;
        end if;
        perform app.measure_endings(_endings, _closed);
        rights := app.count_endings(_session, _endings, _closed);
        perform app.follow_breakers(_endings, _closed);
    end if;
    answers := app.answer_reports(_session, _reports, _endings, _closed);
    rights := coalesce(rights, '{}') || app.rights_of_duplicates(_session, _reports, answers);
end;
$$;
