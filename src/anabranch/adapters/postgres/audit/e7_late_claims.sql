-- E7: a task that runs when its job ends is stopped by its worker within a grace, or killed.
select j.job_id, concat('task ', c.idx, ' of node ', l.node, ' runs in session ', c.session, ', though the job ended at ',
                        j.finished_at) as what
  from app.claims c
 cross join lateral (select x.* from app.lanes x where x.id = c.lane limit 1) l
  join app.jobs j on j.id = l.job
 where l.closed and j.finished_at < app.now() - %(grace)s::interval
   and exists (select from app.duties d
                where d.name = 'sweeper' and d.unbroken_since < app.now() - %(grace)s::interval
                  and d.ticked_at > app.now() - %(grace)s::interval)
