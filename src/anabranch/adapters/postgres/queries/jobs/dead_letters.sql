-- The tasks that failed for good, those of the newest lanes first, after a cursor; what was retried since is not among them.
select j.job_id, j.workflow, j.state as job_state, j.job_id || '-' || l.node || '-' || coalesce(o.key, o.idx::text) as task_id,
       l.node, coalesce(o.key, o.idx::text) as index, coalesce(o.handler, l.handler) as handler, o.attempt as attempts,
       o.error, o.finished_at, l.id as lane, o.idx as position
  from app.lanes l
  join app.jobs j on j.id = l.job
 cross join lateral (
       select x.idx, x.attempt, x.error, x.finished_at, i.key, i.handler
         from app.outcomes x left join app.items i on i.lane = x.lane and i.idx = x.idx
        where x.lane = l.id and x.outcome = 'failed' and (l.id < %(lane)s or x.idx > %(position)s)
          and (%(handler)s::text is null or coalesce(i.handler, l.handler) = %(handler)s)
          and (%(code)s::text is null or x.error ->> 'code' = %(code)s)
        order by x.idx limit %(limit)s) o
 where l.failed > 0 and not l.superseded and l.purpose = 'work' and l.id <= %(lane)s
   and (%(workflow)s::text is null or j.workflow = %(workflow)s)
   and (%(job)s::text is null or j.job_id = %(job)s)
 order by l.id desc, o.idx limit %(limit)s;
