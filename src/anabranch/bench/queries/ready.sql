-- How many of these processes are live workers.
select count(*) from app.sessions s
 where s.dead_at is null and s.kind = 'worker' and s.host = %(host)s and s.pid = any(%(pids)s);
