-- The live sessions, without the queues that are the engine's own, with the tasks that each holds: as many as it has slots run, and those taken ahead wait.
select s.id, s.kind, s.host, s.pid, array(select q from unnest(s.queues) q where q not like 'plan:%%') as queues, s.slots,
       least(h.held, s.slots) as running, greatest(h.held - s.slots, 0) as waiting, s.draining, s.began_at, s.beat_at
  from app.sessions s cross join lateral (select count(*) as held from app.claims c where c.session = s.id) h
 where s.dead_at is null order by s.id;
