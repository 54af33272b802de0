-- The statements of the benchmarks.

-- name: bare_claim
-- Take tasks.
select claim(%(batch)s::integer);

-- name: bare_complete
-- Complete tasks.
select complete(%(done)s::bigint[]);

-- name: bare_fill
-- Submit a fan-out: its tasks, and their number.
with filled as (insert into tasks (state) select 0 from generate_series(1, %(tasks)s) returning 1)
update counter set remaining = (select count(*) from filled);

-- name: bare_left
-- How many tasks are not completed yet.
select remaining from counter;

-- name: bare_schema
-- The least that a queue with a fan-in needs: a row per task, an index of the ready ones, and a counter.
create table tasks (id bigint generated always as identity primary key, state smallint not null default 0);
create index tasks_ready on tasks (id) where state = 0;
create table counter (remaining integer not null);
insert into counter values (0);

create function complete(_done bigint[]) returns void language plpgsql as $$
begin
    update tasks set state = 2 where id = any(_done);
    update counter set remaining = remaining - cardinality(_done);
end;
$$;

create function claim(_batch integer) returns bigint[] language plpgsql as $$
declare
    _taken bigint[];
begin
    with taken as (
        update tasks set state = 1
         where id = any(array(select id from tasks where state = 0 order by id limit _batch for update skip locked))
        returning id)
    select array_agg(id) into _taken from taken;
    return _taken;
end;
$$;

-- Both in one commit. It completes first: a claim may keep a lock on a row that another took in the same moment, and so
-- must wait for nothing afterwards.
create function turn(_done bigint[], _batch integer) returns bigint[] language plpgsql as $$
begin
    if _done <> '{}' then
        perform complete(_done);
    end if;
    return claim(_batch);
end;
$$;

-- name: bare_turn
-- Complete the tasks in hand and take the next ones.
select turn(%(done)s::bigint[], %(batch)s::integer);

-- name: chain
-- The hops of a chain that has ended: from one handler's return to the next one's entry, on the handlers' own clock.
select count(*), percentile_cont(0.5) within group (order by hop), percentile_cont(0.99) within group (order by hop), max(hop)
  from (select o.result::float - lag(o.result::float) over (order by n.position) as hop
          from app.jobs j
          join app.nodes n on n.job = j.id
          join app.lanes l on l.job = j.id and l.node = n.name
          join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
         where j.job_id = %(job_id)s) hops
 where hop is not null;

-- name: fan_out
-- A fan-out that has ended: its accepted results, how often its node was advanced from, and how long after `since` (the
-- submitter's monotonic clock, which is the handlers' too) the handlers began.
select count(*), percentile_cont(0.5) within group (order by o.result::float - %(since)s),
       percentile_cont(0.99) within group (order by o.result::float - %(since)s),
       (select count(*) from app.events e where e.job = l.job and e.node = l.node and e.kind = 'node.completed')
  from app.jobs j
  join app.lanes l on l.job = j.id and l.node = 'tasks'
  join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
 where j.job_id = %(job_id)s
 group by l.job, l.node;

-- name: job_state
-- Where a job stands, and why it failed.
select state, error ->> 'message' from app.jobs where job_id = %(job_id)s;

-- name: jobs
-- The jobs of a run that have ended: from the statement that created each to the one that ended it, by the database's
-- clock, and until the last was created.
select count(*), percentile_cont(0.5) within group (order by took), percentile_cont(0.99) within group (order by took),
       max(created)
  from (select extract(epoch from finished_at - created_at)::float as took,
               extract(epoch from created_at - min(created_at) over ())::float as created
          from app.jobs where id > %(after)s and scope = %(scope)s) jobs;

-- name: newest_job
-- The newest job's number: those of a run come after it.
select coalesce(max(id), 0) from app.jobs;

-- name: open_jobs
-- How many jobs of a run have not ended, how many did not complete, and why one of them did not.
select count(*) filter (where state not in ('completed', 'failed', 'cancelled')),
       count(*) filter (where state in ('failed', 'cancelled')),
       min(error ->> 'message')
  from app.jobs where id > %(after)s and scope = %(scope)s;

-- name: ready
-- How many of these processes are live workers.
select count(*) from app.sessions s
 where s.dead_at is null and s.kind = 'worker' and s.host = %(host)s and s.pid = any(%(pids)s);

-- name: served
-- How many of these processes are live workers that have ended a task of a queue.
select count(*) from app.sessions s
 where s.dead_at is null and s.kind = 'worker' and s.host = %(host)s and s.pid = any(%(pids)s)
   and exists (select from app.lanes l join app.outcomes o on o.lane = l.id where l.queue = %(queue)s and o.session = s.id);

-- name: wal
-- How much the server has written to its log so far, in bytes.
select (pg_current_wal_insert_lsn() - '0/0')::bigint;

-- name: sandbox_peak
-- The memory that the calls of all attempts in a sandbox used at most, in MB.
select max((t.metrics ->> 'sandbox_peak_mb')::integer) from app.traces t;

-- name: announce
-- Announce something to the endpoints of a platform.
select app.announce(%(platform)s, %(subject)s, 'bench.sent', jsonb_build_object('n', %(n)s::integer), 'bench');
