-- Give back what dead sessions hold: a task that had started is marked as a suspect and runs alone next time, and so is
-- one whose sessions died again and again, for it may kill them before they can tell; others are free (E21).
-- Answers how many.
create function app.release_dead(_batch integer) returns integer language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    select app.release(coalesce(jsonb_agg(jsonb_build_object(
               'session', c.session, 'lane', c.lane, 'idx', c.idx, 'attempt', c.attempt,
               'ended', case when c.started_at is null and c.attempt < 3 then 'lost' else 'suspect' end,
               'body', '{"code": "worker.died", "message": "the worker died", "category": "transient"}'::jsonb)), '[]'))
      from (select held.* from (select distinct session from app.claims) holder
              join app.sessions s on s.id = holder.session and s.dead_at is not null
              join app.claims held on held.session = s.id limit _batch) c;
$$;
