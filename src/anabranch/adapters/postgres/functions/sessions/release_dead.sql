-- Give back what dead sessions hold in these lanes: a task that had started is marked as a suspect and runs alone next
-- time, and so is one whose sessions died again and again, for it may kill them before they can report it; others are
-- free (E21). A suspect whose workers died five times more while it ran, or may have run, fails for good: no task takes
-- its workers with it forever (E1). Returns how many.
create function app.release_dead(_batch integer, _from bigint default 0, _to bigint default 9223372036854775807)
returns integer language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    select app.release(coalesce(jsonb_agg(jsonb_build_object(
               'session', c.session, 'lane', c.lane, 'idx', c.idx, 'attempt', c.attempt, 'token', c.token,
               'ended', case when c.started_at is null and c.attempt < 3 then 'lost'
                             when c.crashes > 0 and app.has_killed_workers(c, 5) then 'failed' else 'suspect' end,
               'body', '{"code": "worker.died", "message": "the worker died", "category": "transient"}'::jsonb)), '[]'))
      from (select held.* from (select distinct session from app.claims) holder
              join app.sessions s on s.id = holder.session and s.dead_at is not null
              join app.claims held on held.session = s.id and held.lane between _from and _to limit _batch) c;
$$;
