-- What the database knows for metrics: bounded and by indexes. Totals of what was ever inserted come from PostgreSQL's own
-- statistics, which cost nothing where the work is done.
select (select coalesce(jsonb_object_agg(o.state, o.jobs), '{}')
          from (select j.state, count(*) as jobs
                  from (select x.state from app.jobs x where x.state in ('pending', 'running', 'waiting') limit 200000) j
                 group by j.state) o) as jobs,
       (select coalesce(jsonb_agg(jsonb_build_array(e.workflow, e.state, e.jobs) order by e.workflow, e.state), '[]')
          from app.ended_jobs e) as ended,
       (select coalesce(jsonb_object_agg(q.queue, q.tasks), '{}')
          from (select l.queue, sum(l.width - l.next_index) as tasks
                  from (select x.queue, x.width, x.next_index from app.lanes x where not x.closed and x.next_index < x.width limit 50000) l
                 group by l.queue) q) as ready,
       (select coalesce(jsonb_object_agg(q.queue, q.tasks), '{}')
          from (select l.queue, count(*) as tasks
                  from (select x.lane from app.claims x limit 100000) c
                 cross join lateral (select x.queue from app.lanes x where x.id = c.lane limit 1) l
                 group by l.queue) q) as running,
       (select coalesce(jsonb_object_agg(q.queue, q.tasks), '{}')
          from (select l.queue, count(*) as tasks
                  from (select x.lane from app.due x limit 100000) d
                 cross join lateral (select x.queue, x.closed from app.lanes x where x.id = d.lane limit 1) l
                 where not l.closed
                 group by l.queue) q) as due,
       (select coalesce(jsonb_object_agg(s.kind, s.processes), '{}')
          from (select x.kind, count(*) as processes from app.sessions x
                 where x.dead_at is null and x.beat_at + x.lease > app.now() group by x.kind) s) as sessions,
       (select coalesce(jsonb_object_agg(q.queue, q.workers), '{}')
          from (select named.queue, count(s.id) as workers
                  from (select distinct l.queue
                          from (select x.queue from app.lanes x where not x.closed and x.next_index < x.width limit 50000) l
                        union select unnest(x.queues) from app.sessions x where x.dead_at is null and x.kind = 'worker') named
                  left join app.sessions s on s.dead_at is null and s.kind = 'worker' and not s.draining
                   and s.beat_at + s.lease > app.now() and named.queue = any(s.queues)
                 where named.queue not like 'plan:%%' group by named.queue) q) as served,
       (select coalesce(sum(x.slots), 0)::integer from app.sessions x
         where x.dead_at is null and x.kind = 'worker' and x.beat_at + x.lease > app.now()) as slots,
       (select coalesce(jsonb_object_agg(d.name, extract(epoch from app.now() - d.ticked_at)::float), '{}')
          from app.duties d) as duties,
       (select count(*) from (select from app.rights x where x.session is null limit 1000) r) as untaken_rights,
       (select coalesce(extract(epoch from app.now() - min(x.made_at))::float, 0)
          from (select r.made_at from app.rights r where r.session is null
                 order by coalesce(r.taken_until, r.made_at) limit 1000) x) as oldest_right_seconds,
       pg_catalog.pg_database_size(current_database()) as database_bytes,
       (select coalesce(sum(d.numbackends), 0)::integer from pg_catalog.pg_stat_database d
         where d.datname = current_database()) as connections,
       current_setting('max_connections')::integer as max_connections,
       (select coalesce(max(extract(epoch from clock_timestamp() - a.xact_start)), 0)::float
          from pg_catalog.pg_stat_activity a
         where a.datname = current_database() and a.pid <> pg_catalog.pg_backend_pid()) as oldest_transaction_seconds,
       (select coalesce(jsonb_agg(to_jsonb(h)), '[]') from app.horizon_holders() h) as holders,
       (select coalesce(jsonb_object_agg(t.relname, jsonb_build_object(
                   'live', t.n_live_tup, 'dead', t.n_dead_tup, 'inserted', t.n_tup_ins)), '{}')
          from pg_catalog.pg_stat_user_tables t where t.schemaname = 'app') as tables;
