-- E7: a task that runs as a job names that job, which knows its parent, and whether it has ended; a child job that has
-- not ended is a task's.
select j.job_id, concat('it runs for task ', k.idx, ' of lane ', k.lane, ', and ',
                        case when j.parent is distinct from l.job then 'has another parent'
                             when k.ended_at is null then 'has ended unnoticed' else 'has not ended' end) as what
  from app.children k
  join app.jobs j on j.id = k.job
  left join app.lanes l on l.id = k.lane
 where j.parent is distinct from l.job
    or (k.ended_at is not null) <> (j.state in ('completed', 'failed', 'cancelled'))
union all
select j.job_id, 'it is a child job that has not ended, and no task waits for it'
  from app.jobs j
 where j.parent is not null and j.state in ('pending', 'running', 'waiting')
   and not exists (select from app.children k where k.job = j.id)
