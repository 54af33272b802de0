-- E3: the attempts of a task are numbered without gaps, from where its earlier generations ended up to the one that runs,
-- waits or ended it. One that ended while it waited keeps the number it had.
select j.job_id,
       concat('task ', t.idx, ' of node ', l.node, ' is at attempt ', t.attempt, ', and kept are ',
              coalesce(a.first || ' to ' || a.last || ', ' || a.rows || ' in all', 'none')) as what
  from app.jobs j
  join app.lanes l on l.job = j.id
 cross join lateral (
       select c.idx, c.attempt, c.attempt - 1 as upto, c.attempt - 1 as at_most from app.claims c where c.lane = l.id
       union all
       select k.idx, k.attempt, k.attempt - 1, k.attempt - 1 from app.children k where k.lane = l.id
       union all
       select d.idx, d.attempt, d.attempt, d.attempt from app.due d where d.lane = l.id
       union all
       select o.idx, o.attempt, o.attempt - 1, o.attempt - (not o.forced)::integer from app.outcomes o where o.lane = l.id) t
  left join lateral (
       select min(x.attempt) as first, max(x.attempt) as last, count(*) as rows
         from app.attempts x where x.lane = l.id and x.idx = t.idx) a on true
 where (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
   and case when a.rows > 0 then a.last not between t.upto and t.at_most or a.rows <> a.last - a.first + 1
                                 or (l.generation = 0 and a.first <> 1)
            else l.generation = 0 and t.upto > 0 end
