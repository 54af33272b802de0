-- The tasks of a job in order, after a cursor; with what their parameters are filled in from, where they are.
select t.task_id, t.node, t.index, t.state as status, t.handler, t.parameters, t.attempt as attempts, t.failures,
       t.crashes, t.claimed_at, t.started_at, t.finished_at, t.due_at, t.result, t.error, t.lane, t.position,
       l.policy -> 'values' as values, i.parameters as item, j.job_id, j.workflow_hash,
       case when l.policy ? 'values' then j.parameters end as inputs
  from app.tasks t
  join app.lanes l on l.id = t.lane
  join app.jobs j on j.id = t.job
  left join app.items i on i.lane = t.lane and i.idx = t.position
 where t.job = %(job)s and (t.lane, t.position) > (%(lane)s, %(position)s)
   and (%(node)s::text is null or t.node = %(node)s)
   and (%(status)s::text is null or t.state = %(status)s)
 order by t.lane, t.position limit %(limit)s;
