-- What operators and the health of the system read.

-- name: budget
-- What the processes with a session may take of the server's connections, and what there is for everybody but superusers; how
-- many are open now, of all databases. A process of an earlier release, which does not say, counts as a worker of then.
select (select coalesce(sum(coalesce(s.connections, 8)), 0)::integer from app.sessions s
         where s.dead_at is null and s.beat_at + s.lease >= app.now()) as declared,
       (select count(*)::integer from app.sessions s
         where s.dead_at is null and s.beat_at + s.lease >= app.now()) as processes,
       current_setting('max_connections')::integer as maximum,
       least(current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
                 - coalesce(current_setting('reserved_connections', true)::integer, 0),
             (select nullif(d.datconnlimit, -1) from pg_catalog.pg_database d where d.datname = current_database())) as usable,
       (select coalesce(sum(d.numbackends), 0)::integer from pg_catalog.pg_stat_database d) as opened;

-- name: callable_functions
-- Every function of schema app but those that triggers call: how it is called with nothing, and as whom.
select p.oid::regprocedure::text as name,
       format('select * from app.%%I(%%s)', p.proname,
              (select string_agg('null::' || a.type::regtype::text, ', ' order by a.place)
                 from unnest(p.proargtypes::oid[]) with ordinality as a(type, place))) as call,
       case when pg_catalog.has_function_privilege('anabranch_reader', p.oid, 'execute') then 'anabranch_reader'
            when pg_catalog.has_function_privilege('anabranch_app', p.oid, 'execute') then 'anabranch_app'
            when pg_catalog.has_function_privilege('anabranch_handler', p.oid, 'execute') then 'anabranch_handler'
            else 'anabranch_owner' end as role
  from pg_catalog.pg_proc p
 where p.pronamespace = 'app'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
 order by 1;

-- name: gauges
-- What the database knows for metrics: bounded and by indexes. Totals of what was ever inserted come from PostgreSQL's own
-- statistics, which cost nothing where the work is done.
select (select coalesce(jsonb_object_agg(o.state, o.jobs), '{}')
          from (select j.state, count(*) as jobs
                  from (select x.state from app.jobs x where x.state in ('pending', 'running', 'waiting') limit 200000) j
                 group by j.state) o) as jobs,
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
                          from (select x.queue from app.lanes x
                                 where not x.closed and (x.next_index < x.width or x.due_at is not null) limit 50000) l
                        union select unnest(x.queues) from app.sessions x where x.dead_at is null and x.kind = 'worker') named
                  left join app.sessions s on s.dead_at is null and s.kind = 'worker' and not s.draining
                   and s.beat_at + s.lease > app.now() and named.queue = any(s.queues)
                 where named.queue not like 'plan:%%' group by named.queue) q) as served,
       (select coalesce(jsonb_agg(jsonb_build_array(b.kind, b.name, b.is_open)), '[]') from app.list_breakers() b) as breakers,
       (select coalesce(sum(x.slots), 0)::integer from app.sessions x
         where x.dead_at is null and x.kind = 'worker' and x.beat_at + x.lease > app.now()) as slots,
       (select coalesce(jsonb_object_agg(d.name, extract(epoch from app.now() - d.ticked_at)::float), '{}')
          from app.duties d) as duties,
       r.untaken_rights, coalesce(r.oldest_right_seconds, 0) as oldest_right_seconds,
       (select to_jsonb(w) from app.measure_deliveries() w) as deliveries,
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
          from pg_catalog.pg_stat_user_tables t where t.schemaname = 'app') as tables,
       app.duration_bounds() as duration_bounds,
       (select coalesce(jsonb_agg(jsonb_build_array(h.kind, h.name, h.detail, h.buckets, h.seconds)
                                  order by h.kind, h.name, h.detail), '[]')
          from (select x.kind, x.name, x.detail, jsonb_object_agg(x.bucket, x.entries) as buckets, sum(x.seconds) as seconds
                  from app.histograms x group by x.kind, x.name, x.detail) h) as durations
  from app.measure_rights() r;

-- name: limits
-- The limits and pauses, by kind and name.
select m.* from app.limits m order by m.kind, m.name;

-- name: living
-- The sessions whose lease has not ended, by the clock that decides leases (E18): one that is silent for longer does not
-- live, also where nobody has marked it as dead yet.
select s.kind::text, s.host, s.pid from app.sessions s
 where s.dead_at is null and s.beat_at + s.lease >= app.now() order by s.kind, s.id;

-- name: ping
-- Whether the server answers.
select 1 as answer;

-- name: queues
-- The queues that have open work, are served or are limited: how much waits and runs, and how many workers serve each.
select named.queue as name, coalesce(l.ready, 0) as ready, coalesce(l.running, 0) as running, coalesce(l.held, 0) as held,
       (select count(*) from app.sessions s
         where s.dead_at is null and s.kind = 'worker' and not s.draining and named.queue = any(s.queues)) as workers,
       m.most, coalesce(m.paused, false) as paused, coalesce(m.reason, '') as reason
  from (select queue from app.lanes where not closed
        union select unnest(queues) from app.sessions where dead_at is null
        union select name from app.limits where kind = 'queue') named
  left join (select x.queue, sum(x.width - x.next_index) as ready, sum(x.running) as running,
                    count(*) filter (where x.held is not null) as held
               from app.lanes x where not x.closed group by x.queue) l on l.queue = named.queue
  left join app.limits m on m.kind = 'queue' and m.name = named.queue
 where named.queue not like 'plan:%%' or l.queue is not null or m.name is not null
 order by named.queue;

-- name: server
-- Which server this is, and how far its schema is migrated.
select current_setting('server_version') as server_version, (select max(number) from app.migrations) as migration;

-- name: session_releases
-- The sessions whose lease has not ended, with the release of the schema that each was built for; null: before it was noted.
select s.kind::text, s.host, s.pid, s.schema_release from app.sessions s
 where s.dead_at is null and s.beat_at + s.lease >= app.now() order by s.kind, s.id;

-- name: sessions
-- The live sessions, without the queues that are the engine's own, with the tasks that each holds: as many as it has slots run, and those taken ahead wait.
select s.id, s.kind, s.host, s.pid, array(select q from unnest(s.queues) q where q not like 'plan:%%') as queues, s.slots,
       least(h.held, s.slots) as running, greatest(h.held - s.slots, 0) as waiting, s.draining, s.began_at, s.beat_at
  from app.sessions s cross join lateral (select count(*) as held from app.claims c where c.session = s.id) h
 where s.dead_at is null order by s.id;

-- name: stuck_jobs
-- The stuck ones (E1) among the next open jobs after an id. Last: where to go on, or null after the last of all.
select case when cardinality(o.ids) = %(limit)s then o.ids[%(limit)s] end as last,
       coalesce((select jsonb_agg(f.job_id) from (
           select s.job_id from app.stuck_jobs s where s.id = any(o.ids) limit 10) f), '[]') as stuck
  from (select coalesce(array_agg(n.id order by n.id), '{}') as ids from (
           select f.id from unnest('{pending,running,waiting}'::app.job_state[]) as s(state)
            cross join lateral (
                  select j.id from app.jobs j where j.state = s.state and -j.id < -%(after)s::bigint
                   order by -j.id desc limit %(limit)s) f
            order by f.id limit %(limit)s) n) o;

-- name: table_sizes
-- The tables of schema app as the server's statistics know them: nothing of them is read.
select s.relname as name, s.n_live_tup as rows, s.n_dead_tup as dead_rows, pg_table_size(s.relid) as table_bytes,
       pg_indexes_size(s.relid) as index_bytes, greatest(s.last_vacuum, s.last_autovacuum) as vacuumed_at,
       greatest(s.last_analyze, s.last_autoanalyze) as analyzed_at
  from pg_stat_user_tables s where s.schemaname = 'app' order by s.relname;

-- name: vitals
-- What health is judged by: bounded and by indexes, whatever the tables hold. Of very many lanes or rights, the first.
select (select count(*) from app.sessions where dead_at is null and kind = 'worker' and beat_at + lease > app.now()) as workers,
       (select count(*) from app.sessions where dead_at is null and kind = 'orchestrator' and beat_at + lease > app.now()) as orchestrators,
       (select coalesce(jsonb_object_agg(d.name, jsonb_build_object(
                   'age_seconds', extract(epoch from app.now() - d.ticked_at)::float,
                   'every_seconds', extract(epoch from d.every)::float, 'trouble', d.trouble,
                   -- Since then, how long a process of the kind that does it has lived: only that time counts as lateness.
                   'served_seconds', (select sum(extract(epoch from upper(u.span) - lower(u.span)))::float
                       from unnest((select range_agg(tstzrange(greatest(s.began_at, d.ticked_at), e.ended_at))
                                      from app.sessions x join app.sessions s on s.kind = x.kind
                                     cross join least(s.beat_at + s.lease, s.dead_at, app.now()) as e(ended_at)
                                     where x.id = d.session and e.ended_at > greatest(s.began_at, d.ticked_at)
                                       and app.now() - d.ticked_at > d.every * 3)) as u(span)))), '{}')
          from app.duties d) as duties,
       (select coalesce(jsonb_agg(to_jsonb(b) - 'is_open'), '[]') from app.list_breakers() b where b.is_open) as breakers,
       r.untaken_rights, r.oldest_right_seconds,
       (select coalesce(jsonb_object_agg(q.queue, q.ready), '{}')
          from (select l.queue, sum(l.ready) as ready
                  from (select x.queue, case when x.due_at <= app.now() then x.remaining - x.running
                                             else x.width - x.next_index end as ready
                          from app.lanes x
                         where not x.closed and (x.next_index < x.width or x.due_at <= app.now()) limit 50000) l
                 group by l.queue) q) as queues,
       (select coalesce(jsonb_object_agg(q.queue, q.workers), '{}')
          from (select s.queue, count(*) as workers
                  from (select unnest(x.queues) as queue from app.sessions x
                         where x.dead_at is null and x.kind = 'worker' and not x.draining
                           and x.beat_at + x.lease > app.now()) s
                 group by s.queue) q) as served,
       -- What waits for its next attempt, or was not taken yet, and has a handler that no live worker has, or not in its version.
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
                 group by 1
                union all
                select l.handler || '@' || l.handler_version, sum(l.tasks)
                  from (select x.handler, x.handler_version, x.remaining - x.running as tasks from app.lanes x
                         where x.claimable and x.handler_version is not null limit 200) l
                 where app.has_handler(l.handler) and not app.has_handler_version(l.handler, l.handler_version)
                 group by 1) m) as missing_handlers,
       (select coalesce(jsonb_agg(jsonb_build_object(
                   'who', t.who, 'trouble', t.trouble, 'age_seconds', extract(epoch from app.now() - t.troubled_at)::float)
                   order by t.troubled_at), '[]')
          from ((select s.kind || ' ' || s.pid || ' on ' || s.host as who, s.trouble, s.troubled_at from app.sessions s
                  where s.dead_at is null and s.trouble is not null limit 20)
                union all
                (select 'an advance after node ' || r.node, r.trouble, r.troubled_at from app.rights r
                  where r.trouble is not null order by r.troubled_at limit 20)
                union all
                (select format('the schedule %%s of %%s', s.name, s.platform), w.trouble, w.troubled_at
                   from app.watches w join app.schedules s on s.id = w.schedule and s.paused_at is null and not s.retired
                        and s.watch is not null
                  where w.trouble is not null order by w.troubled_at limit 20)) t) as troubles,
       (select jsonb_build_object('step_seconds', extract(epoch from k.step)::float,
                                  'age_seconds', extract(epoch from app.now() - k.stepped_at)::float)
          from app.clock k where k.step <> '0') as clock_step,
       (select d.release from app.deployment d) as release,
       (select coalesce(jsonb_agg(to_jsonb(h)), '[]') from app.horizon_holders() h) as holders,
       c.connections, c.all_connections, current_setting('max_connections')::integer as max_connections
  from app.measure_rights() r
 cross join (select sum(d.numbackends) filter (where d.datname = current_database())::integer as connections,
                    sum(d.numbackends)::integer as all_connections
               from pg_catalog.pg_stat_database d) c;
