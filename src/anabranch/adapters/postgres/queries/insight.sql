-- What is read to see where time goes, what fails, and what needs a person.

-- name: attempt_times
-- When the attempts of a job's tasks could be claimed, were claimed, began and ended: of each node those of its first tasks,
-- and of its running ones. The end of a task that runs is null.
select l.node, coalesce(i.key, a.idx::text) as index, a.attempt, a.status, l.opened_at as ready_at, a.claimed_at, a.started_at,
       a.finished_at
  from app.lanes l
 cross join lateral (
       (select o.idx, o.attempt, o.outcome::text as status, o.claimed_at, o.started_at, o.finished_at
          from app.outcomes o where o.lane = l.id order by o.idx limit %(limit)s)
       union all
       (select x.idx, x.attempt, x.ended::text, x.claimed_at, x.started_at, x.finished_at
          from app.attempts x where x.lane = l.id order by x.idx, x.attempt limit %(limit)s)
       union all
       (select c.idx, c.attempt, 'running', c.claimed_at, c.started_at, null
          from app.claims c where c.lane = l.id order by c.idx limit %(limit)s)
       union all
       (select c.idx, c.attempt, 'running', c.claimed_at, c.claimed_at, null
          from app.children c where c.lane = l.id order by c.idx limit %(limit)s)) a
  left join app.items i on i.lane = l.id and i.idx = a.idx
 where l.job = %(job)s and l.purpose = 'work' and not l.superseded
 order by l.id, a.idx, a.attempt;

-- name: failure_groups
-- The failed tasks of a job by what went wrong: the node, the handler, the code, and the message without its numbers, ids
-- and quoted names.
select l.node, coalesce(i.handler, l.handler) as handler, md5(x.words) as fingerprint, count(*) as tasks,
       (array_agg(o.error order by o.idx))[1] as error,
       (array_agg(coalesce(i.key, o.idx::text) order by o.idx))[1:5] as indexes, max(o.finished_at) as last_at
  from app.lanes l
  join app.outcomes o on o.lane = l.id and o.outcome = 'failed'
  left join app.items i on i.lane = l.id and i.idx = o.idx
 cross join lateral (
       select concat_ws(' ', l.node, o.error ->> 'code', o.error ->> 'type', regexp_replace(regexp_replace(
                  left(o.error ->> 'message', 400), '''[^'']*''|"[^"]*"', '"', 'g'), '[0-9a-f]{8,}|[0-9]+', '#', 'g')) as words) x
 where l.job = %(job)s and l.purpose = 'work' and l.failed > 0 and not l.superseded
 group by l.node, coalesce(i.handler, l.handler), x.words
 order by count(*) desc, l.node limit %(limit)s;

-- name: open_counts
-- How many jobs are in each state in which they are open.
select s.state::text, (select count(*) from app.jobs j where j.state = s.state and (%(platform)s::text is null or j.platform = %(platform)s)) as jobs
  from unnest(array['pending', 'running', 'waiting']::app.job_state[]) as s(state);

-- name: throughput
-- How many of the newest jobs ended in each hour of the last day, by state.
select date_trunc('hour', j.finished_at) as hour, j.state, count(*) as jobs
  from (select x.finished_at, x.state from app.jobs x
         where %(platform)s::text is null or x.platform = %(platform)s order by x.id desc limit %(newest)s) j
 where j.finished_at > app.now() - interval '24 hours'
 group by 1, 2 order by 1, 2;

-- name: failing_workflows
-- The workflows of which jobs failed in the last day, of the newest jobs: how many failed and ended, and the last that failed.
select j.workflow, count(*) filter (where j.state = 'failed') as failed, count(*) as ended,
       (array_agg(j.job_id order by j.id desc) filter (where j.state = 'failed'))[1] as job_id,
       (array_agg(j.error ->> 'code' order by j.id desc) filter (where j.state = 'failed'))[1] as code,
       max(j.finished_at) filter (where j.state = 'failed') as failed_at
  from (select x.* from app.jobs x
         where %(platform)s::text is null or x.platform = %(platform)s order by x.id desc limit %(newest)s) j
 where j.finished_at > app.now() - interval '24 hours' and j.state in ('completed', 'failed')
 group by j.workflow having count(*) filter (where j.state = 'failed') > 0
 order by failed desc, j.workflow limit 10;

-- name: oldest_waiting
-- The lanes of tasks that have waited longest to be claimed, with their job and queue.
select j.job_id, j.workflow, l.node, l.queue, l.opened_at as since, l.width - l.next_index as tasks
  from app.lanes l join app.jobs j on j.id = l.job
 where l.claimable and l.purpose = 'work' and (%(platform)s::text is null or j.platform = %(platform)s)
 order by l.opened_at limit 5;

-- name: waiting_gates
-- The open gates that have waited longest for an answer.
select j.job_id, j.workflow, w.node, w.until, n.opened_at as since
  from app.waits w
  join app.jobs j on j.id = w.job
  join app.nodes n on n.job = w.job and n.name = w.node
  join app.workflows f on f.hash = j.workflow_hash
 where (%(platform)s::text is null or j.platform = %(platform)s)
   and exists (select from jsonb_to_recordset(f.definition -> 'nodes') as d(name text, kind text)
                where d.name = w.node and d.kind = 'gate')
 order by n.opened_at limit 10;

-- name: workflow_versions
-- The definitions of a workflow that jobs were pinned to, the newest first, with the first and the last of their jobs.
select f.hash, coalesce((f.definition ->> 'version')::integer, 1) as version, u.jobs, u.first_at, u.last_at
  from (select j.workflow_hash, count(*) as jobs, min(j.created_at) as first_at, max(j.created_at) as last_at
          from (select x.workflow_hash, x.created_at from app.jobs x
                 where x.workflow = %(workflow)s and (%(platform)s::text is null or x.platform = %(platform)s)
                 order by x.id desc limit 10000) j
         group by 1) u
  join app.workflows f on f.hash = u.workflow_hash
 order by u.last_at desc limit 20;
