-- The work of each queue, for what starts and stops workers: tasks that can be claimed now, and those that are running.
-- Planning, the engine's own work, is not in it: every worker serves it.
create view app.queue_depths as
    select l.queue, sum(case when l.held is null then least(l.width - l.next_index + d.due, l.max_running - l.running) else 0 end)::bigint as ready,
           sum(l.running)::bigint as running
      from app.lanes l
     cross join lateral (select count(*) as due from app.due x where x.lane = l.id and x.due_at <= app.now()) d
     where not l.closed and l.queue not like 'plan:%'
     group by l.queue;
