-- What is read of jobs, their tasks and their history.

-- name: activity
-- The size of the database, its connections, and the transaction that has been open longest: what it may have seen, no
-- vacuum removes. Sessions of other users are counted, and their transactions not seen, unless the user may read them.
select pg_database_size(current_database()) as database_bytes,
       (select count(*) from pg_stat_activity a where a.datname = current_database()) as connections,
       current_setting('max_connections')::integer as max_connections,
       (select row_to_json(o) from (
            select extract(epoch from statement_timestamp() - a.xact_start)::float as seconds,
                   a.application_name as process, a.state
              from pg_stat_activity a
             where a.datname = current_database() and a.pid <> pg_backend_pid() and a.xact_start is not null
             order by a.xact_start limit 1) o) as oldest_transaction;

-- name: alike
-- The ids of jobs that begin alike, and one more than is shown of them.
select j.job_id from app.jobs j
 where j.job_id >= %(job_id)s and j.job_id < %(job_id)s || 'g'
   and (%(platform)s::text is null or j.platform = %(platform)s)
 order by j.job_id limit 6;

-- name: dead_letters
-- The tasks that failed for good, those of the newest lanes first, after a cursor; what was retried since is not among
-- them, nor what failed in a job that has a newer one of the same parameters: app.retry refuses it.
select j.job_id, j.workflow, j.state as job_state, j.job_id || '-' || l.node || '-' || coalesce(o.key, o.idx::text) as task_id,
       l.node, coalesce(o.key, o.idx::text) as index, coalesce(o.handler, l.handler) as handler, o.attempt as attempts,
       o.error, o.finished_at, l.id as lane, o.idx as position
  from app.lanes l
  join app.jobs j on j.id = l.job
 cross join lateral (
       select x.idx, x.attempt, x.error, x.finished_at, i.key, i.handler
         from app.outcomes x left join app.items i on i.lane = x.lane and i.idx = x.idx
        where x.lane = l.id and x.outcome = 'failed' and (l.id < %(lane)s or x.idx > %(position)s)
          and (%(handler)s::text is null or coalesce(i.handler, l.handler) = %(handler)s)
          and (%(code)s::text is null or x.error ->> 'code' = %(code)s)
        order by x.idx limit %(limit)s) o
 where l.failed > 0 and not l.superseded and l.purpose = 'work' and l.id <= %(lane)s
   and (%(workflow)s::text is null or j.workflow = %(workflow)s)
   and (%(job)s::text is null or j.job_id = %(job)s)
   and (%(platform)s::text is null or j.platform = %(platform)s)
   and not exists (select from app.jobs x where x.identity = j.identity and x.ordinal > j.ordinal)
 order by l.id desc, o.idx limit %(limit)s;

-- name: events
-- The events of a job in order, after one of them.
select e.* from app.events e where e.job = %(job)s and e.seq > %(after)s order by e.seq limit %(limit)s;

-- name: failed_logs
-- What the attempts of a job that did not complete their tasks printed and measured, in order.
select j.job_id || '-' || l.node || '-' || coalesce(i.key, x.idx::text) as task_id, l.node,
       coalesce(i.key, x.idx::text) as index, x.attempt, x.log, x.metrics, l.id as lane, x.idx as position
  from app.jobs j
  join app.lanes l on l.job = j.id and l.purpose = 'work'
 cross join lateral (
       (select a.idx, a.attempt from app.attempts a where a.lane = l.id order by a.idx, a.attempt limit %(limit)s)
       union all
       (select o.idx, o.attempt from app.outcomes o where o.lane = l.id and o.outcome = 'failed'
         order by o.idx limit %(limit)s)
       order by idx, attempt limit %(limit)s) failed
  join app.traces x on x.lane = l.id and x.idx = failed.idx and x.attempt = failed.attempt
  left join app.items i on i.lane = l.id and i.idx = x.idx
 where j.id = %(job)s
 order by l.id, x.idx, x.attempt limit %(limit)s;

-- name: heads
-- Where some jobs stand, and the number of each one's last event: what a look at every watched job reads.
select j.id as job, j.state, j.last_event from app.jobs j where j.id = any(%(jobs)s);

-- name: job
-- A job by its id or the start of it: two rows mean that the start is not enough.
select j.id, j.job_id, j.identity, j.ordinal, j.scope, j.workflow, j.workflow_hash, j.parameters, j.priority, j.state,
       j.generation, j.result, j.error, j.correlation_id, j.last_event, j.created_at, j.started_at, j.finished_at, j.parent,
       j.watched, j.platform, j.tick, j.ending ->> 'state' as ending,
       (select e.at from app.events e where e.job = j.id and e.seq = j.last_event) as updated_at,
       case when j.generation > 0 then app.idle_seconds(j.id) else 0 end as idle_seconds,
       coalesce((select json_object_agg(l.name, l.value order by l.name) from app.labels l where l.job = j.id), '{}') as labels,
       case when j.watched then app.find_deciding_release(j.job_id) end as release_id
  from app.jobs j
 where j.job_id >= %(job_id)s and j.job_id < %(job_id)s || 'g'
   and (%(platform)s::text is null or j.platform = %(platform)s)
 order by j.job_id limit 2;

-- name: job_counts
-- How many jobs there are in each state.
select j.state, count(*) as jobs from app.jobs j group by j.state order by j.state;

-- name: job_head
-- Where a job stands, by its id or the start of it: two rows mean that the start is not enough. Its parameters and its
-- result are not read, for they may be large.
select j.id as job, j.state, j.last_event from app.jobs j
 where j.job_id >= %(job_id)s and j.job_id < %(job_id)s || 'g'
   and (%(platform)s::text is null or j.platform = %(platform)s)
 order by j.job_id limit 2;

-- name: jobs
-- Jobs, the newest first, after a cursor; results are not read, for they may be large. Whatever is asked for, only as many
-- are read as are shown, of each platform and state: the parts that were not asked for are not run.
with recursive platforms(name) as (
    select coalesce(%(platform)s::text, (select min(j.platform) from app.jobs j))
     where %(platform)s::text is not null or %(workflow)s::text is not null
    union all
    select (select min(j.platform) from app.jobs j where j.platform > p.name)
      from platforms p where p.name is not null and %(platform)s::text is null),
wanted as (
    (select j.id from app.jobs j
      where %(state)s::app.job_state is null and %(workflow)s::text is null and %(parent)s::bigint is null
        and %(label_names)s::text[] is null and %(platform)s::text is null
        and (%(before)s::bigint is null or j.id < %(before)s)
      order by j.id desc limit %(limit)s)
    union all
    (select j.id from app.jobs j
      where %(state)s::app.job_state is not null and %(workflow)s::text is null and %(parent)s::bigint is null
        and %(label_names)s::text[] is null and %(platform)s::text is null
        and j.state = %(state)s::app.job_state and -j.id > -coalesce(%(before)s::bigint, 9223372036854775807)
      order by -j.id limit %(limit)s)
    union all
    select found.id
      from platforms p
     cross join unnest(case when %(state)s::app.job_state is null then enum_range(null::app.job_state)
                            else array[%(state)s::app.job_state] end) as s(state)
     cross join lateral (
           (select j.id from app.jobs j
             where %(workflow)s::text is null and j.platform = p.name and j.state = s.state
               and -j.id > -coalesce(%(before)s::bigint, 9223372036854775807)
             order by -j.id limit %(limit)s)
           union all
           (select j.id from app.jobs j
             where j.platform = p.name and j.workflow = %(workflow)s::text and j.state = s.state
               and -j.id > -coalesce(%(before)s::bigint, 9223372036854775807)
             order by -j.id limit %(limit)s)) found
     where p.name is not null and %(parent)s::bigint is null and %(label_names)s::text[] is null
    union all
    -- The children of a job are its platform's.
    select j.id from app.jobs j
     where j.parent = %(parent)s::bigint and (%(before)s::bigint is null or j.id < %(before)s)
       and (%(state)s::app.job_state is null or j.state = %(state)s)
       and (%(workflow)s::text is null or j.workflow = %(workflow)s) and %(label_names)s::text[] is null
    union all
    -- Those with the first label, the newest first, and of them those that are all that was asked for.
    (select l.job from app.labels l
      cross join lateral (select x.* from app.jobs x where x.id = l.job limit 1) j
      where l.name = (%(label_names)s::text[])[1] and l.value = (%(label_values)s::text[])[1]
        and -l.job > -coalesce(%(before)s::bigint, 9223372036854775807)
        and (%(state)s::app.job_state is null or j.state = %(state)s)
        and (%(workflow)s::text is null or j.workflow = %(workflow)s)
        and (%(parent)s::bigint is null or j.parent = %(parent)s)
        and (%(platform)s::text is null or j.platform = %(platform)s)
        and not exists (select from unnest(%(label_names)s::text[], %(label_values)s::text[]) as wanted(name, value)
                         where wanted.value is distinct from (select x.value from app.labels x
                                                               where x.job = l.job and x.name = wanted.name))
      order by -l.job limit %(limit)s))
select j.id, j.job_id, j.identity, j.ordinal, j.scope, j.workflow, j.workflow_hash, j.parameters, j.priority, j.state,
       j.generation, null::jsonb as result, j.error, j.correlation_id, j.last_event, j.created_at, j.started_at,
       j.finished_at, j.parent, j.watched, j.platform, j.tick, j.ending ->> 'state' as ending,
       (select e.at from app.events e where e.job = j.id and e.seq = j.last_event) as updated_at,
       case when j.generation > 0 then app.idle_seconds(j.id) else 0 end as idle_seconds,
       coalesce((select json_object_agg(l.name, l.value order by l.name) from app.labels l where l.job = j.id), '{}') as labels,
       case when j.watched then app.find_deciding_release(j.job_id) end as release_id
  from (select w.id from wanted w order by w.id desc limit %(limit)s) w
 cross join lateral (select x.* from app.jobs x where x.id = w.id limit 1) j
 order by j.id desc;

-- name: lane_values
-- What the parameters of some lanes' tasks are filled in from, where they are.
select l.id as lane, l.values, j.job_id, j.workflow_hash, j.parameters as inputs, j.tick
  from app.lanes l join app.jobs j on j.id = l.job where l.id = any(%(lanes)s) and l.values is not null;

-- name: logs
-- What the attempts of a job's tasks printed and measured, in order, after a cursor. It walks the job's lanes, and in
-- each the traces by their key from the cursor on, so that a page costs the same wherever it begins.
select j.job_id || '-' || l.node || '-' || t.index as task_id, l.node, t.index, t.attempt, t.log, t.metrics,
       l.id as lane, t.position
  from app.jobs j
  join app.lanes l on l.job = j.id and l.purpose = 'work' and l.id >= %(lane)s
                  and (%(node)s::text is null or l.node = %(node)s)
 cross join lateral (
       select x.idx as position, coalesce(i.key, x.idx::text) as index, x.attempt, x.log, x.metrics
         from app.traces x
         left join app.items i on i.lane = x.lane and i.idx = x.idx
        where x.lane = l.id
          and (x.idx, x.attempt) > (case when l.id = %(lane)s then %(position)s else -1 end,
                                    case when l.id = %(lane)s then %(last)s else 0 end)
          and (%(attempt)s::integer is null or x.attempt = %(attempt)s)
          and (not %(failed)s
               or exists (select from app.attempts a where a.lane = x.lane and a.idx = x.idx and a.attempt = x.attempt)
               or exists (select from app.outcomes o where o.lane = x.lane and o.idx = x.idx and o.attempt = x.attempt
                             and o.outcome = 'failed'))
          and (%(index)s::text is null
               or x.idx = any(array(select k.idx from app.items k where k.lane = l.id and k.key = %(index)s)
                              || %(number)s::integer) and coalesce(i.key, x.idx::text) = %(index)s)
        order by x.idx, x.attempt limit %(limit)s) t
 where j.id = %(job)s
 order by l.id, t.position, t.attempt limit %(limit)s;

-- name: node_outputs
-- The small outputs of the finished nodes of a job: of its only task, or what was made of the results of its tasks.
select n.name, o.output
  from app.nodes n
 cross join lateral (
       select coalesce(n.output, (
                  select x.result from app.lanes a join app.outcomes x on x.lane = a.id and x.idx = 0
                   where a.job = n.job and a.node = n.name and not a.superseded and x.outcome = 'completed'
                     and (a.purpose = 'aggregate' or a.purpose = 'work' and a.policy ? 'single')
                   order by a.generation desc, a.purpose desc limit 1)) as output) o
 where n.job = %(job)s and n.finished_at is not null and pg_column_size(o.output) <= 4096
   and octet_length(o.output::text) <= 4096 and o.output::text not like '%%"anabranch:reference"%%';

-- name: node_values
-- Parts of outputs in the order of the list, each named by its node and path; one that does not exist is not found.
select v.value, v.reference, v.many, num_nonnulls(v.value, v.reference, v.many) > 0 as found
  from jsonb_array_elements(%(parts)s::jsonb) with ordinality as p(words, place)
  left join lateral app.node_value(
            %(job_id)s, p.words ->> 0,
            array(select w.word from jsonb_array_elements_text(p.words) with ordinality as w(word, place)
                   where w.place > 1 order by w.place)) v on true
 order by p.place;

-- name: nodes
-- The nodes of some jobs in order, with the counts of their tasks from the lane: no task is read, but where few of them
-- run how far these are.
select n.job, n.name, n.state, w.node is not null as is_waiting, coalesce(l.width, 0) as total,
       case when l.closed then 0 else coalesce(l.width - l.next_index, 0) end as ready,
       case when l.closed then 0 else coalesce(l.running, 0) end as running,
       case when l.closed then 0 else coalesce(l.next_index - (l.width - l.remaining) - l.running, 0) end as due,
       coalesce(l.width - l.remaining - l.failed, 0) as completed,
       coalesce(l.failed, 0) as failed,
       case when l.closed then coalesce(l.remaining, 0) else 0 end as cancelled,
       s.said, n.error, n.opened_at, n.finished_at
  from app.nodes n
  left join app.waits w on w.job = n.job and w.node = n.name and n.state = 'running'
  left join lateral (select * from app.lanes l where l.job = n.job and l.node = n.name and l.purpose = 'work' and not l.superseded
                      order by l.generation desc limit 1) l on true
  left join lateral (
        select jsonb_agg(c.progress || jsonb_build_object('at', c.progress_at) order by c.idx) as said
          from app.claims c
         where l.running between 1 and 100 and not l.closed and c.lane = l.id and c.progress is not null) s on true
 where n.job = any(%(jobs)s)
 order by n.job, n.position;

-- name: parent
-- The id of the job that runs another.
select p.job_id from app.jobs p where p.id = %(parent)s;

-- name: running_logs
-- What the running attempts of a job's tasks have printed so far, in order, after a cursor; no trace of another is read.
select j.job_id || '-' || l.node || '-' || t.index as task_id, l.node, t.index, t.attempt, t.log, t.metrics,
       l.id as lane, t.position
  from app.jobs j
  join app.lanes l on l.job = j.id and l.purpose = 'work' and (%(node)s::text is null or l.node = %(node)s)
 cross join lateral (
       select x.idx as position, coalesce(i.key, x.idx::text) as index, x.attempt, x.log, x.metrics
         from app.claims c
         join app.traces x on x.lane = c.lane and x.idx = c.idx and x.attempt = c.attempt
         left join app.items i on i.lane = x.lane and i.idx = x.idx
        where c.lane = l.id) t
 where j.id = %(job)s
   and (l.id, t.position, t.attempt) > (%(lane)s, %(position)s, %(last)s)
   and (%(attempt)s::integer is null or t.attempt = %(attempt)s)
   and (%(index)s::text is null or t.index = %(index)s)
 order by l.id, t.position, t.attempt limit %(limit)s;

-- name: task_rows
-- The tasks of a job as their rows stand, after a cursor, each with the process that holds or held it.
select t.task_id, t.node, t.generation, t.lane, t.place as position, t.index, t.state as status, t.handler, t.attempt,
       t.failures, t.crashes, t.session, s.host, s.pid, t.claimed_at, t.started_at, t.finished_at, t.due_at, t.result, t.error
  from app.list_tasks(%(job)s, %(lane)s, %(position)s, null, null, %(limit)s) t
  left join app.sessions s on s.id = t.session
 order by t.lane, t.place;

-- name: tasks
-- The tasks of a job in order, after a cursor; with what a planner noted of them, and their newest checkpoint, if any.
select t.task_id, t.node, t.index, t.state as status, t.handler,
       (select v.versions ->> t.handler from app.session_versions v where v.session = t.session) as handler_version,
       t.parameters, t.attempt as attempts, t.failures, t.crashes, t.claimed_at, t.started_at, t.finished_at, t.due_at, t.progress, t.result, t.error, t.lane,
       t.place as position, t.item,
       (select i.metadata from app.items i where i.lane = t.lane and i.idx = t.place) as metadata,
       (select jsonb_build_object('phase', c.phase, 'attempt', c.attempt, 'at', c.saved_at)
          from app.checkpoints c where c.lane = t.lane and c.idx = t.place) as checkpoint
  from app.list_tasks(%(job)s, %(lane)s, %(position)s, %(node)s, %(status)s, %(limit)s) t
 order by t.lane, t.place;

-- name: tombstone
-- The tombstones of a job by its id or the start of it: several mean that the start is not enough, and some of
-- them are shown.
select distinct on (t.job_id) t.* from app.tombstones t
 where t.job_id >= %(job_id)s and t.job_id < %(job_id)s || 'g'
   and (%(platform)s::text is null or t.platform = %(platform)s)
 order by t.job_id, t.purged_at desc limit 6;

-- name: tombstone_of
-- The tombstone of a job that was found a moment ago, if it was purged meanwhile.
select t.* from app.tombstones t where t.job = %(job)s;

-- name: newer_of
-- The newest job of the same parameters, if it is another: app.retry refuses the older.
select x.job_id from app.jobs x join app.jobs j using (identity) where j.id = %(job)s and x.ordinal > j.ordinal
 order by x.ordinal desc limit 1;

-- name: waiting_for
-- What keeps an open job from going on, in words, at most ten reasons: a gate, a time, a limit, a breaker, a pause, a queue that no
-- worker serves, a handler that no worker has, or not in the version that is needed, what did not answer the last attempt of a task, an advance that could not
-- be made, a process that can't report, a child job whose result can't be taken, or, before its cleanup, what was asked to stop.
select distinct t.reason
  from (select case when l.held like 'fault %%' then format('node %%s: its tasks can''t be claimed: %%s', l.node, substr(l.held, 7))
                    when b.name is not null then format('node %%s: the breaker of %%s %%s is open: %%s', l.node, b.kind, b.name,
                        case when b.open_until > app.now() then 'one task tries at ' || to_char(b.open_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                             else 'one task tries now' end) || coalesce('; ' || (b.error ->> 'message'), '')
                    when m.paused then format('node %%s: the %%s %%s is paused', l.node, m.kind, m.name)
                                       || case when m.reason = '' then '' else ': ' || m.reason end
                    when l.held is not null then format('node %%s: held back by the limit of %%s', l.node, l.held)
                    when not exists (select from app.sessions s where s.dead_at is null and s.kind = 'worker'
                                        and not s.draining and l.queue = any(s.queues))
                    then format('node %%s: no worker serves the queue %%s', l.node, l.queue)
                    when l.handler not like 'anabranch.%%' and not app.has_handler(l.handler)
                    then format('node %%s: no worker has the handler %%s', l.node, l.handler)
                    when l.handler_version is not null and not app.has_handler_version(l.handler, l.handler_version)
                    then format('node %%s: no worker has version %%s of the handler %%s', l.node, l.handler_version, l.handler)
                    end as reason
          from app.lanes l
          left join app.limits m on m.kind || ' ' || m.name = l.held
          left join app.breakers b on b.is_open and 'breaker ' || b.kind || ' ' || b.name = l.held
         where l.job = %(job)s and not l.closed and (l.next_index < l.width or l.due_at is not null)
        union all
        select format('node %%s: waits', w.node)
               || case when n.kind = 'gate' then ' for a signal' else '' end
               || case when w.until is null then '' else to_char(w.until at time zone 'UTC', '" until "YYYY-MM-DD"T"HH24:MI:SS"Z"') end
          from app.waits w
          join app.jobs j on j.id = w.job
          join app.workflows f on f.hash = j.workflow_hash
          cross join lateral jsonb_to_recordset(f.definition -> 'nodes') as n(name text, kind text)
         where w.job = %(job)s and n.name = w.node
        union all
        select format('node %%s: %%s', l.node, a.error ->> 'message')
          from app.lanes l
         cross join lateral (select * from app.due x where x.lane = l.id order by x.due_at limit 20) d
          join app.attempts a on a.lane = d.lane and a.idx = d.idx and a.attempt = d.attempt
         where l.job = %(job)s and not l.closed and a.ended = 'handed_back' and a.error is not null
        union all
        (select format('node %%s: its tasks were asked to stop, and cleanup begins when they have', l.node)
           from app.jobs j join app.rights r on r.job = j.id and r.purpose = 'start' join app.lanes l on l.job = j.id and l.closed
          where j.id = %(job)s and j.ending is not null
            and (exists (select from app.claims c where c.lane = l.id) or exists (select from app.children k where k.lane = l.id))
          limit 100)
        union all
        select format('node %%s: %%s', r.node, r.trouble) from app.rights r where r.job = %(job)s and r.trouble is not null
        union all
        (select format('node %%s: %%s', l.node, s.trouble)
           from app.lanes l join app.claims c on c.lane = l.id join app.sessions s on s.id = c.session and s.dead_at is null
          where l.job = %(job)s and not l.closed and s.trouble is not null limit 100)
        union all
        (select format('node %%s: the result of its child job %%s can''t be taken', l.node, left(c.job_id, 12))
           from app.lanes l join app.children k on k.lane = l.id join app.jobs c on c.id = k.job
          where l.job = %(job)s and not l.closed and k.ended_at < app.now() - interval '1 min' limit 100)) t
 where t.reason is not null order by 1 limit 10;
