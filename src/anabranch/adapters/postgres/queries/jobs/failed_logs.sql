-- What the attempts of a job that did not complete their tasks printed and measured, in order.
select j.job_id || '-' || l.node || '-' || coalesce(i.key, x.idx::text) as task_id, l.node,
       coalesce(i.key, x.idx::text) as index, x.attempt, x.log, x.metrics, l.id as lane, x.idx as position
  from app.jobs j
  join app.lanes l on l.job = j.id and l.purpose = 'work'
 cross join lateral (
       (select a.idx, a.attempt from app.attempts a where a.lane = l.id order by a.idx, a.attempt limit %(limit)s)
       union all
       (select o.idx, o.attempt from app.outcomes o where o.lane = l.id and o.outcome = 'failed'
         order by o.idx limit %(limit)s)
       order by idx, attempt limit %(limit)s) failed
  join app.traces x on x.lane = l.id and x.idx = failed.idx and x.attempt = failed.attempt
  left join app.items i on i.lane = l.id and i.idx = x.idx
 where j.id = %(job)s
 order by l.id, x.idx, x.attempt limit %(limit)s;
