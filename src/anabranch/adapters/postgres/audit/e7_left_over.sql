-- E7: what a job left when it ended is ended soon while a sweeper is at work: tasks that are due, and child jobs.
select j.job_id, concat(left_over.what, ' of node ', l.node, ', though the job ended at ', j.finished_at) as what
  from (select 'a task is due' as what, d.lane from app.due d
        union all
        select 'a child job runs', k.lane from app.children k where k.ended_at is null) left_over
 cross join lateral (select x.* from app.lanes x where x.id = left_over.lane limit 1) l
  join app.jobs j on j.id = l.job
 where l.closed and j.finished_at < app.now() - %(grace)s::interval
   and exists (select from app.duties d
                where d.name = 'sweeper' and d.unbroken_since < app.now() - %(grace)s::interval
                  and d.ticked_at > app.now() - %(grace)s::interval)
