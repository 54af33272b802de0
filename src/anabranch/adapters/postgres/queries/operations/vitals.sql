-- What health is judged by: bounded and by indexes, whatever the tables hold. Of very many lanes or rights, the first.
select (select count(*) from app.sessions where dead_at is null and kind = 'worker' and beat_at + lease > app.now()) as workers,
       (select count(*) from app.sessions where dead_at is null and kind = 'orchestrator' and beat_at + lease > app.now()) as orchestrators,
       (select coalesce(jsonb_object_agg(d.name, jsonb_build_object(
                   'age_seconds', extract(epoch from app.now() - d.ticked_at)::float,
                   'every_seconds', extract(epoch from d.every)::float, 'trouble', d.trouble)), '{}') from app.duties d) as duties,
       r.untaken_rights, r.oldest_right_seconds,
       (select coalesce(jsonb_object_agg(q.queue, q.ready), '{}')
          from (select l.queue, sum(l.width - l.next_index) as ready
                  from (select x.queue, x.width, x.next_index from app.lanes x where not x.closed and x.next_index < x.width limit 50000) l
                 group by l.queue) q) as queues,
       (select coalesce(jsonb_object_agg(q.queue, q.workers), '{}')
          from (select s.queue, count(*) as workers
                  from (select unnest(x.queues) as queue from app.sessions x
                         where x.dead_at is null and x.kind = 'worker' and not x.draining
                           and x.beat_at + x.lease > app.now()) s
                 group by s.queue) q) as served,
       -- What waits for its next attempt, or was not taken yet, and has a handler that no live worker has.
       (select coalesce(jsonb_object_agg(m.handler, m.tasks), '{}')
          from (select coalesce(i.handler, l.handler) as handler, count(*) as tasks
                  from ((select x.id, x.handler from app.lanes x
                          where not x.ripe and not x.closed and x.due_at is not null limit 200)
                        union all
                        (select x.id, x.handler from app.lanes x where x.claimable and x.ripe limit 200)) l
                 cross join lateral (select x.* from app.due x where x.lane = l.id order by x.due_at limit 20) d
                  left join app.items i on i.lane = d.lane and i.idx = d.idx
                 where coalesce(i.handler, l.handler) not like 'anabranch.%%'
                   and not app.has_handler(coalesce(i.handler, l.handler))
                 group by 1) m) as missing_handlers,
       (select coalesce(jsonb_agg(jsonb_build_object(
                   'who', t.who, 'trouble', t.trouble, 'age_seconds', extract(epoch from app.now() - t.troubled_at)::float)
                   order by t.troubled_at), '[]')
          from ((select s.kind || ' ' || s.pid || ' on ' || s.host as who, s.trouble, s.troubled_at from app.sessions s
                  where s.dead_at is null and s.trouble is not null limit 20)
                union all
                (select 'an advance after node ' || r.node, r.trouble, r.troubled_at from app.rights r
                  where r.trouble is not null order by r.troubled_at limit 20)) t) as troubles,
       (select jsonb_build_object('step_seconds', extract(epoch from k.step)::float,
                                  'age_seconds', extract(epoch from app.now() - k.stepped_at)::float)
          from app.clock k where k.step <> '0') as clock_step,
       (select coalesce((to_jsonb(d) ->> 'release')::integer, 1) from app.deployment d) as release,
       (select coalesce(jsonb_agg(to_jsonb(h)), '[]') from app.horizon_holders() h) as holders,
       c.connections, c.all_connections, current_setting('max_connections')::integer as max_connections
  from (select count(*) as untaken_rights,
               extract(epoch from app.now() - min(x.made_at))::float as oldest_right_seconds
          from (select r.made_at from app.rights r where r.session is null
                 order by coalesce(r.taken_until, r.made_at) limit 1000) x) r
 cross join (select sum(d.numbackends) filter (where d.datname = current_database())::integer as connections,
                    sum(d.numbackends)::integer as all_connections
               from pg_catalog.pg_stat_database d) c;
