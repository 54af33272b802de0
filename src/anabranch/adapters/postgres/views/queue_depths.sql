-- The work of each queue, for what starts and stops workers: tasks that can be claimed now, and those that are running.
-- Lanes that a limit holds back count as far as it has room: only a worker's claim lets them go, so one must be started.
-- So does one task of those that a breaker holds back whose time is over.
-- Planning, the engine's own work, is not in it: every worker serves it.
create view app.queue_depths as
    with waiting as (
        select l.queue, l.held, sum(l.running) as running,
               sum(least(l.width - l.next_index + d.due, l.max_running - l.running)) as tasks,
               max(case when l.held like 'key %' then app.count_ancestors(l.job, substr(l.held, 5)) else 0 end) as sharing
          from app.lanes l
         cross join lateral (select count(*) as due from app.due x where x.lane = l.id and x.due_at <= app.now()) d
         where not l.closed and l.queue not like 'plan:%'
         group by l.queue, l.held)
    select w.queue, sum(case when w.held is null then w.tasks else least(w.tasks, greatest(m.room + w.sharing, 0)) end)::bigint as ready,
           sum(w.running)::bigint as running
      from waiting w
      left join lateral (
           select x.most - (app.read_running(x.kind, x.name)).running as room
             from app.limits x where x.kind || ' ' || x.name = w.held and not x.paused
           union all
           select 1 from app.breakers b
            where 'breaker ' || b.kind || ' ' || b.name = w.held and b.open_until <= app.now()) m on true
     group by w.queue;
