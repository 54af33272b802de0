-- The checks of `anabranch db audit`: each finds the rows that violate an invariant, and says what is wrong.

-- name: e13_due
-- E13: a lane knows when the first of its tasks is due; without that no claim would find it.
select j.job_id, concat('a task of node ', l.node, ' is due at ', d.first, ', and its lane knows of ',
                        coalesce(l.due_at::text, 'none')) as what
  from (select x.lane, min(x.due_at) as first from app.due x group by x.lane) d
 cross join lateral (select x.* from app.lanes x where x.id = d.lane limit 1) l
  join app.jobs j on j.id = l.job
 where not l.closed and not l.ripe and (l.due_at is null or l.due_at > d.first)

-- name: e17_events
-- E17: a job's events are numbered from 1 without gaps, up to the last that the job knows of.
select j.job_id, concat('its last event is ', j.last_event, ', and there are ', e.rows, ', from ', e.first, ' to ', e.last) as what
  from app.jobs j
 cross join lateral (
       select count(*) as rows, min(x.seq) as first, max(x.seq) as last from app.events x where x.job = j.id) e
 where (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
   and (e.rows, e.first, e.last) is distinct from (j.last_event::bigint, 1, j.last_event)

-- name: e17_states
-- E17: replaying a job's events gives the states of the job and its nodes.
select j.job_id, concat('it is ', j.state, ', and its events say ', e.said) as what
  from app.jobs j
 cross join lateral (
       select case when x.kind in ('job.submitted', 'job.retried') then 'pending'
                   when x.kind = 'job.ending' then 'running' else substr(x.kind, 5) end as said
         from app.events x where x.job = j.id and x.kind like 'job.%%' order by x.seq desc limit 1) e
 where (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
   and e.said <> j.state::text
union all
select j.job_id, concat('its node ', n.name, ' is ', n.state, ', and its events say ', coalesce(e.said, 'pending'))
  from app.jobs j
  join app.nodes n on n.job = j.id
  left join lateral (
       select case when x.kind = 'job.retried' then 'pending' else substr(x.kind, 6) end as said
         from app.events x
        where x.job = j.id
          and ((x.kind like 'node.%%' and x.node = n.name) or (x.kind = 'job.retried' and x.data -> 'nodes' ? n.name))
        order by x.seq desc limit 1) e on true
 where (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
   and coalesce(e.said, 'pending') <> n.state::text

-- name: e1_running_nodes
-- E1: a node that runs has an open lane, a right to advance it, or a wait.
select j.job_id, concat('node ', n.name, ' runs, and has neither an open lane nor a right nor a wait') as what
  from app.jobs j
  join app.nodes n on n.job = j.id and n.state = 'running'
 where j.state in ('pending', 'running', 'waiting')
   and not exists (select from app.lanes l where l.job = j.id and l.node = n.name and not l.closed)
   and not exists (select from app.rights r where r.job = j.id and r.node = n.name)
   and not exists (select from app.waits w where w.job = j.id and w.node = n.name)

-- name: e1_stuck_jobs
-- E1: something will move on every job that has not ended. A lane whose limit was just taken away is let go by the sweeper.
select s.job_id, concat('it is ', s.state, ', and nothing will move it on') as what
  from app.stuck_jobs s
 where not exists (
       select from app.lanes l
        where l.job = s.id and not l.closed and l.held is not null
          and not exists (select from app.limits m where m.kind || ' ' || m.name = l.held))

-- name: e21_sessions
-- E21: a claim is of a session that is known; what a dead one held is given back soon while a sweeper is at work.
select j.job_id, concat('task ', c.idx, ' of node ', l.node, ' is held by session ', c.session, ', which ',
                        coalesce('died at ' || s.dead_at, 'does not exist')) as what
  from app.claims c
  left join app.sessions s on s.id = c.session
 cross join lateral (select x.* from app.lanes x where x.id = c.lane limit 1) l
  join app.jobs j on j.id = l.job
 where s.id is null
    or (s.dead_at < app.now() - %(grace)s::interval and app.has_swept(%(grace)s::interval))

-- name: e22_limits
-- E22: what claims believe to run for a limit does run. One snapshot sees each task that began or ended with its change.
select null::text as job_id,
       concat('the limit of ', r.kind, ' ', r.name, ' goes by ', r.running, ' tasks that run, and there are ', r.counted,
              '; to count them, set the limit again') as what
  from (select m.kind, m.name, (app.read_running(m.kind, m.name)).running, app.count_running(m.kind, m.name) as counted
          from app.limits m where m.most is not null) r
 where r.running <> r.counted

-- name: e2_rows_without_a_lane
-- E2: rows of tasks belong to a lane; those of a purged job's, which still are to be cleared, to its remains.
select null::text as job_id, concat(t.kind, ' of lane ', t.lane, ', which does not exist') as what
  from (select distinct 'a claim' as kind, c.lane from app.claims c
         where not exists (select from app.lanes l where l.id = c.lane)
        union all
        select distinct 'a task that is due', d.lane from app.due d
         where not exists (select from app.lanes l where l.id = d.lane)
        union all
        select distinct 'a child job', k.lane from app.children k
         where not exists (select from app.lanes l where l.id = k.lane)
        union all
        select 'rows', h.lane
          from (select distinct lane from app.outcomes union select distinct lane from app.attempts
                union select distinct lane from app.items union select distinct lane from app.traces
                union select distinct lane from app.checkpoints) h
         where not exists (select from app.lanes l where l.id = h.lane)
           and not exists (select from app.remains r where r.lane = h.lane)) t

-- name: e3_attempts
-- E3: the attempts of a task are numbered without gaps, from where its earlier generations ended up to the one that runs,
-- waits or ended it. One that ended while it waited keeps the number it had.
select j.job_id,
       concat('task ', t.idx, ' of node ', l.node, ' is at attempt ', t.attempt, ', and kept are ',
              coalesce(a.first || ' to ' || a.last || ', ' || a.rows || ' in all', 'none')) as what
  from app.jobs j
  join app.lanes l on l.job = j.id
 cross join lateral (
       select c.idx, c.attempt, c.attempt - 1 as upto, c.attempt - 1 as at_most from app.claims c where c.lane = l.id
       union all
       select k.idx, k.attempt, k.attempt - 1, k.attempt - 1 from app.children k where k.lane = l.id
       union all
       select d.idx, d.attempt, d.attempt, d.attempt from app.due d where d.lane = l.id
       union all
       select o.idx, o.attempt, o.attempt - 1, o.attempt - (not o.forced)::integer from app.outcomes o where o.lane = l.id) t
  left join lateral (
       select min(x.attempt) as first, max(x.attempt) as last, count(*) as rows
         from app.attempts x where x.lane = l.id and x.idx = t.idx) a on true
 where (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
   and case when a.rows > 0 then a.last not between t.upto and t.at_most or a.rows <> a.last - a.first + 1
                                 or (l.generation = 0 and a.first <> 1)
            else l.generation = 0 and t.upto > 0 end

-- name: e4_one_place
-- E4: a task runs, runs as a job, is due or has ended: one of them, so that it has one result.
select j.job_id, concat('task ', t.idx, ' of node ', l.node, ' is ', t.first, ' and ', t.second) as what
  from (select c.lane, c.idx, 'running' as first, 'ended' as second from app.claims c join app.outcomes o using (lane, idx)
        union all
        select c.lane, c.idx, 'running', 'due' from app.claims c join app.due d using (lane, idx)
        union all
        select c.lane, c.idx, 'running', 'a job' from app.claims c join app.children k using (lane, idx)
        union all
        select d.lane, d.idx, 'due', 'ended' from app.due d join app.outcomes o using (lane, idx)
        union all
        select d.lane, d.idx, 'due', 'a job' from app.due d join app.children k using (lane, idx)
        union all
        select k.lane, k.idx, 'a job', 'ended' from app.children k join app.outcomes o using (lane, idx)) t
  join app.lanes l on l.id = t.lane
  join app.jobs j on j.id = l.job

-- name: e5_ended_jobs
-- E5: a job that ended has its time, and no node, lane or wait that is open; one that has not ended has no time.
select j.job_id, concat('it is ', j.state, ', and ', e.what) as what
  from app.jobs j
 cross join lateral (
       select 'has no time of its end' as what where j.finished_at is null
       union all
       select concat('its node ', n.name, ' is ', n.state) from app.nodes n
        where n.job = j.id and n.state in ('pending', 'running')
       union all
       select concat('lane ', l.id, ' of node ', l.node, ' is open') from app.lanes l where l.job = j.id and not l.closed
       union all
       select concat('node ', w.node, ' waits') from app.waits w where w.job = j.id) e
 where j.state in ('completed', 'failed', 'cancelled')
   and (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
union all
select j.job_id, concat('it is ', j.state, ', and has a time of its end')
  from app.jobs j where j.state in ('pending', 'running', 'waiting') and j.finished_at is not null
union all
select j.job_id, concat('lane ', l.id, ' is open, and its node ', n.name, ' is ', n.state)
  from app.lanes l
  join app.jobs j on j.id = l.job
  join app.nodes n on n.job = l.job and n.name = l.node
 where not l.closed and j.state in ('pending', 'running', 'waiting') and n.state <> 'running'

-- name: e6_lane_counters
-- E6: what a lane counts is what its rows say: each task that was begun is in one place, those that are left are those
-- without a result, and an open lane has some left and has not failed beyond what it tolerates. What runs is counted
-- while the lane is open.
select j.job_id,
       concat('lane ', l.id, ' of node ', l.node, ' counts ', l.next_index, ' begun, ', l.running, ' running, ',
              l.remaining, ' left and ', l.failed, ' failed; its rows say ', c.claims + c.children + c.due + c.ended, ', ',
              c.claims + c.children, ', ', l.width - c.final, ' and ', c.failed,
              case when c.beyond > 0 then concat('; ', c.beyond, ' are beyond its end') end) as what
  from app.jobs j
  join app.lanes l on l.job = j.id
 cross join lateral (
       select (select count(*) from app.claims x where x.lane = l.id) as claims,
              (select count(*) from app.children x where x.lane = l.id) as children,
              (select count(*) from app.due x where x.lane = l.id) as due,
              o.ended, o.final, o.failed,
              o.beyond + (select count(*) from app.claims x where x.lane = l.id and x.idx >= l.next_index) as beyond
         from (select count(*) as ended, count(*) filter (where x.outcome <> 'cancelled') as final,
                      count(*) filter (where x.outcome = 'failed') as failed,
                      count(*) filter (where x.idx < 0 or x.idx >= l.next_index) as beyond
                 from app.outcomes x where x.lane = l.id) o) c
 where (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
   and (l.next_index <> c.claims + c.children + c.due + c.ended
        or l.remaining <> l.width - c.final or l.failed <> c.failed or c.beyond > 0
        or l.next_index > l.width
        or (not l.closed and (l.running <> c.claims + c.children or l.remaining = 0 or l.failed > l.tolerated)))

-- name: e6_late_rights
-- E6: a right that nobody holds is taken soon while a sweeper is at work, which only an orchestrator does; but cleanup
-- begins when all else of the job has stopped.
select j.job_id, concat('right ', r.id, ' of node ', r.node, ' has been free since ',
                        coalesce(r.taken_until, r.made_at)) as what
  from app.rights r
  join app.jobs j on j.id = r.job
 where coalesce(r.taken_until, r.made_at) < app.now() - %(grace)s::interval
   and (r.purpose <> 'start' or not app.is_stopping(r.job))
   and app.has_swept(%(grace)s::interval)

-- name: e6_rights
-- E6: a right to advance is of a lane of its own job that is closed, or of a wait.
select j.job_id, concat('right ', r.id, ' of node ', r.node, ' is of lane ', r.lane, ', which ',
                        case when l.id is null then 'does not exist' when l.job <> r.job then 'is of another job'
                             else 'is open' end) as what
  from app.rights r
  join app.jobs j on j.id = r.job
  left join app.lanes l on l.id = r.lane
 where r.lane is not null and (l.id is null or l.job <> r.job or not l.closed)

-- name: e7_children
-- E7: a task that runs as a job names that job, which knows its parent, and whether it has ended; a child job that has
-- not ended is a task's.
select j.job_id, concat('it runs for task ', k.idx, ' of lane ', k.lane, ', and ',
                        case when j.parent is distinct from l.job then 'has another parent'
                             when k.ended_at is null then 'has ended unnoticed' else 'has not ended' end) as what
  from app.children k
  join app.jobs j on j.id = k.job
  left join app.lanes l on l.id = k.lane
 where j.parent is distinct from l.job
    or (k.ended_at is not null) <> (j.state in ('completed', 'failed', 'cancelled'))
union all
select j.job_id, 'it is a child job that has not ended, and no task waits for it'
  from app.jobs j
 where j.parent is not null and j.state in ('pending', 'running', 'waiting')
   and not exists (select from app.children k where k.job = j.id)

-- name: e7_late_claims
-- E7: a task that runs when its job ends is stopped by its worker within a grace, or killed.
select j.job_id, concat('task ', c.idx, ' of node ', l.node, ' runs in session ', c.session, ', though the job ended at ',
                        j.finished_at) as what
  from app.claims c
 cross join lateral (select x.* from app.lanes x where x.id = c.lane limit 1) l
  join app.jobs j on j.id = l.job
 where l.closed and j.finished_at < app.now() - %(grace)s::interval
   and app.has_swept(%(grace)s::interval)

-- name: e7_left_over
-- E7: what a job left when it ended is ended soon while a sweeper is at work: tasks that are due, and child jobs.
select j.job_id, concat(left_over.what, ' of node ', l.node, ', though the job ended at ', j.finished_at) as what
  from (select 'a task is due' as what, d.lane from app.due d
        union all
        select 'a child job runs', k.lane from app.children k where k.ended_at is null) left_over
 cross join lateral (select x.* from app.lanes x where x.id = left_over.lane limit 1) l
  join app.jobs j on j.id = l.job
 where l.closed and j.finished_at < app.now() - %(grace)s::interval
   and app.has_swept(%(grace)s::interval)

-- name: o5_remains
-- O5: a job is there or purged, never both; what remains of one is of lanes that are gone.
select t.job_id, 'it was purged, and is there' as what
  from app.tombstones t join app.jobs j on j.id = t.job
union all
select t.job_id, concat('lane ', r.lane, ' is to be cleared, and is there')
  from app.remains r join app.tombstones t on t.job = r.job join app.lanes l on l.id = r.lane
