-- The tasks of a job as their rows stand, after a cursor, each with the process that holds or held it.
select t.task_id, t.node, t.generation, t.lane, t.place as position, t.index, t.state, t.handler, t.attempt, t.failures,
       t.crashes, t.session, s.host, s.pid, t.claimed_at, t.started_at, t.finished_at, t.due_at, t.result, t.error
  from app.list_tasks(%(job)s, %(lane)s, %(position)s, null, null, %(limit)s) t
  left join app.sessions s on s.id = t.session
 order by t.lane, t.place;
