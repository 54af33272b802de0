-- E6: what a lane counts is what its rows say: each task that was begun is in one place, those that are left are those
-- without a result, and an open lane has some left and has not failed beyond what it tolerates. What runs is counted
-- while the lane is open.
select j.job_id,
       concat('lane ', l.id, ' of node ', l.node, ' counts ', l.next_index, ' begun, ', l.running, ' running, ',
              l.remaining, ' left and ', l.failed, ' failed; its rows say ', c.claims + c.children + c.due + c.ended, ', ',
              c.claims + c.children, ', ', l.width - c.final, ' and ', c.failed,
              case when c.beyond > 0 then concat('; ', c.beyond, ' are beyond its end') end) as what
  from app.jobs j
  join app.lanes l on l.job = j.id
 cross join lateral (
       select (select count(*) from app.claims x where x.lane = l.id) as claims,
              (select count(*) from app.children x where x.lane = l.id) as children,
              (select count(*) from app.due x where x.lane = l.id) as due,
              o.ended, o.final, o.failed,
              o.beyond + (select count(*) from app.claims x where x.lane = l.id and x.idx >= l.next_index) as beyond
         from (select count(*) as ended, count(*) filter (where x.outcome <> 'cancelled') as final,
                      count(*) filter (where x.outcome = 'failed') as failed,
                      count(*) filter (where x.idx < 0 or x.idx >= l.next_index) as beyond
                 from app.outcomes x where x.lane = l.id) o) c
 where (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
   and (l.next_index <> c.claims + c.children + c.due + c.ended
        or l.remaining <> l.width - c.final or l.failed <> c.failed or c.beyond > 0
        or l.next_index > l.width
        or (not l.closed and (l.running <> c.claims + c.children or l.remaining = 0 or l.failed > l.tolerated)))
