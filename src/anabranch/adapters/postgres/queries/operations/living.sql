-- The sessions whose lease has not ended, by the clock that decides leases (E18): whoever is silent for longer does not
-- live, also where nobody has marked it as dead yet.
select s.kind::text, s.host, s.pid from app.sessions s
 where s.dead_at is null and s.beat_at + s.lease >= app.now() order by s.kind, s.id;
