-- The nodes of some jobs in order, with the counts of their tasks from the lane: no task is read, but where few of them
-- run how far these are.
select n.job, n.name, n.state, coalesce(l.width, 0) as total,
       case when l.closed then 0 else coalesce(l.width - l.next_index, 0) end as ready,
       case when l.closed then 0 else coalesce(l.running, 0) end as running,
       case when l.closed then 0 else coalesce(l.next_index - (l.width - l.remaining) - l.running, 0) end as due,
       coalesce(l.width - l.remaining - l.failed, 0) as completed,
       coalesce(l.failed, 0) as failed,
       case when l.closed then coalesce(l.remaining, 0) else 0 end as cancelled,
       s.said, n.error, n.opened_at, n.finished_at
  from app.nodes n
  left join lateral (select * from app.lanes l where l.job = n.job and l.node = n.name and l.purpose = 'work' and not l.superseded
                      order by l.generation desc limit 1) l on true
  left join lateral (
        select jsonb_agg(c.progress || jsonb_build_object('at', c.progress_at) order by c.idx) as said
          from app.claims c
         where l.running between 1 and 20 and not l.closed and c.lane = l.id and c.progress is not null) s on true
 where n.job = any(%(jobs)s)
 order by n.job, n.position;
