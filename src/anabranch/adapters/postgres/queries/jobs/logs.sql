-- What the attempts of a job's tasks printed and measured, in order, after a cursor. It walks the job's lanes, and in
-- each the traces by their key from the cursor on, so that a page costs the same wherever it begins.
select j.job_id || '-' || l.node || '-' || t.index as task_id, l.node, t.index, t.attempt, t.log, t.metrics,
       l.id as lane, t.position
  from app.jobs j
  join app.lanes l on l.job = j.id and l.purpose = 'work' and l.id >= %(lane)s
                  and (%(node)s::text is null or l.node = %(node)s)
 cross join lateral (
       select x.idx as position, coalesce(i.key, x.idx::text) as index, x.attempt, x.log, x.metrics
         from app.traces x
         left join app.items i on i.lane = x.lane and i.idx = x.idx
        where x.lane = l.id
          and (x.idx, x.attempt) > (case when l.id = %(lane)s then %(position)s else -1 end,
                                    case when l.id = %(lane)s then %(last)s else 0 end)
          and (%(attempt)s::integer is null or x.attempt = %(attempt)s)
          and (%(index)s::text is null
               or x.idx = any(array(select k.idx from app.items k where k.lane = l.id and k.key = %(index)s)
                              || %(number)s::integer) and coalesce(i.key, x.idx::text) = %(index)s)
        order by x.idx, x.attempt limit %(limit)s) t
 where j.id = %(job)s
 order by l.id, t.position, t.attempt limit %(limit)s;
