-- Jobs, the newest first, after a cursor; results are not read, for they may be large.
select j.id, j.job_id, j.identity, j.ordinal, j.scope, j.workflow, j.workflow_hash, j.parameters, j.priority, j.state,
       j.generation, null::jsonb as result, j.error, j.correlation_id, j.last_event, j.created_at, j.started_at,
       j.finished_at, j.parent
  from app.jobs j
 where (%(before)s::bigint is null or j.id < %(before)s)
   and (%(state)s::app.job_state is null or j.state = %(state)s)
   and (%(workflow)s::text is null or j.workflow = %(workflow)s)
   and (%(parent)s::bigint is null or j.parent = %(parent)s)
 order by j.id desc limit %(limit)s;
