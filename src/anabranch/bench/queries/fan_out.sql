-- A fan-out that has ended: its accepted results, how often its node was advanced from, and how long after `since` (the
-- submitter's monotonic clock, which is the handlers' too) the handlers began.
select count(*), percentile_cont(0.5) within group (order by o.result::float - %(since)s),
       percentile_cont(0.99) within group (order by o.result::float - %(since)s),
       (select count(*) from app.events e where e.job = l.job and e.node = l.node and e.kind = 'node.completed')
  from app.jobs j
  join app.lanes l on l.job = j.id and l.node = 'tasks'
  join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
 where j.job_id = %(job_id)s
 group by l.job, l.node;
