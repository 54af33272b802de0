-- E6: a right that nobody holds is taken soon while a sweeper is at work, which only an orchestrator does.
select j.job_id, concat('right ', r.id, ' of node ', r.node, ' has been free since ',
                        coalesce(r.taken_until, r.made_at)) as what
  from app.rights r
  join app.jobs j on j.id = r.job
 where coalesce(r.taken_until, r.made_at) < app.now() - %(grace)s::interval
   and exists (select from app.duties d
                where d.name = 'sweeper' and d.unbroken_since < app.now() - %(grace)s::interval
                  and d.ticked_at > app.now() - %(grace)s::interval)
