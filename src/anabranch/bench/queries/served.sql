-- How many of these processes are live workers that have ended a task of a queue.
select count(*) from app.sessions s
 where s.dead_at is null and s.kind = 'worker' and s.host = %(host)s and s.pid = any(%(pids)s)
   and exists (select from app.lanes l join app.outcomes o on o.lane = l.id where l.queue = %(queue)s and o.session = s.id);
