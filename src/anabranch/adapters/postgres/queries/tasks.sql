-- The tasks of a job in order, after a cursor.
select t.task_id, t.node, t.index, t.state as status, t.handler, t.parameters, t.attempt as attempts, t.failures,
       t.crashes, t.claimed_at, t.started_at, t.finished_at, t.due_at,
       c.progress || jsonb_build_object('at', c.progress_at) as progress, t.result, t.error, t.lane, t.position,
       i.parameters as item
  from app.tasks t
  left join app.items i on i.lane = t.lane and i.idx = t.position
  left join app.claims c on t.state = 'running' and c.lane = t.lane and c.idx = t.position
 where t.job = %(job)s and (t.lane, t.position) > (%(lane)s, %(position)s)
   and (%(node)s::text is null or t.node = %(node)s)
   and (%(status)s::text is null or t.state = %(status)s)
 order by t.lane, t.position limit %(limit)s;
