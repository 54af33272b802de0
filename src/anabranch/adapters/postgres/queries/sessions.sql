-- The live sessions, with how many tasks each holds.
select s.id, s.kind, s.host, s.pid, s.queues, s.slots,
       (select count(*) from app.claims c where c.session = s.id) as running, s.draining,
       s.began_at, s.beat_at
  from app.sessions s where s.dead_at is null order by s.id;
