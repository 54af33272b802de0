-- E6: a right to advance is of a lane of its own job that is closed, or of a wait.
select j.job_id, concat('right ', r.id, ' of node ', r.node, ' is of lane ', r.lane, ', which ',
                        case when l.id is null then 'does not exist' when l.job <> r.job then 'is of another job'
                             else 'is open' end) as what
  from app.rights r
  join app.jobs j on j.id = r.job
  left join app.lanes l on l.id = r.lane
 where r.lane is not null and (l.id is null or l.job <> r.job or not l.closed)
