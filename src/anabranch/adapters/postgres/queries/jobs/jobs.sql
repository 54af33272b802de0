-- Jobs, the newest first, after a cursor; results are not read, for they may be large. Whatever is asked for, only as many
-- are read as are shown, of each state: the parts that were not asked for are not run.
with wanted as (
    (select j.id from app.jobs j
      where %(state)s::app.job_state is null and %(workflow)s::text is null and %(parent)s::bigint is null
        and (%(before)s::bigint is null or j.id < %(before)s)
      order by j.id desc limit %(limit)s)
    union all
    (select j.id from app.jobs j
      where %(state)s::app.job_state is not null and %(workflow)s::text is null and %(parent)s::bigint is null
        and j.state = %(state)s::app.job_state and -j.id > -coalesce(%(before)s::bigint, 9223372036854775807)
      order by -j.id limit %(limit)s)
    union all
    select found.id
      from unnest(case when %(state)s::app.job_state is null then enum_range(null::app.job_state)
                       else array[%(state)s::app.job_state] end) as s(state)
     cross join lateral (
           select j.id from app.jobs j
            where j.workflow = %(workflow)s::text and j.state = s.state
              and -j.id > -coalesce(%(before)s::bigint, 9223372036854775807)
            order by -j.id limit %(limit)s) found
     where %(workflow)s::text is not null and %(parent)s::bigint is null
    union all
    select j.id from app.jobs j
     where j.parent = %(parent)s::bigint and (%(before)s::bigint is null or j.id < %(before)s)
       and (%(state)s::app.job_state is null or j.state = %(state)s)
       and (%(workflow)s::text is null or j.workflow = %(workflow)s))
select j.id, j.job_id, j.identity, j.ordinal, j.scope, j.workflow, j.workflow_hash, j.parameters, j.priority, j.state,
       j.generation, null::jsonb as result, j.error, j.correlation_id, j.last_event, j.created_at, j.started_at,
       j.finished_at, j.parent
  from (select w.id from wanted w order by w.id desc limit %(limit)s) w
 cross join lateral (select x.* from app.jobs x where x.id = w.id limit 1) j
 order by j.id desc;
