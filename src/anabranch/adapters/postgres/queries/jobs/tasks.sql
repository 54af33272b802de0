-- The tasks of a job in order, after a cursor.
select t.task_id, t.node, t.index, t.state as status, t.handler, t.parameters, t.attempt as attempts, t.failures,
       t.crashes, t.claimed_at, t.started_at, t.finished_at, t.due_at, t.progress, t.result, t.error, t.lane,
       t.place as position, t.item
  from app.list_tasks(%(job)s, %(lane)s, %(position)s, %(node)s, %(status)s, %(limit)s) t
 order by t.lane, t.place;
