-- E13: a lane knows when the first of its tasks is due; without that no claim would find it.
select j.job_id, concat('a task of node ', l.node, ' is due at ', d.first, ', and its lane knows of ',
                        coalesce(l.due_at::text, 'none')) as what
  from (select x.lane, min(x.due_at) as first from app.due x group by x.lane) d
 cross join lateral (select x.* from app.lanes x where x.id = d.lane limit 1) l
  join app.jobs j on j.id = l.job
 where not l.closed and not l.ripe and (l.due_at is null or l.due_at > d.first)
