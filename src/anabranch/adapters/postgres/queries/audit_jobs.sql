-- Of these jobs those that are known: whether they have ended, whether results of theirs were put aside, and every
-- address that stands in a result of a task.
select j.job_id, j.state in ('completed', 'failed', 'cancelled') as ended,
       coalesce(bool_or(o.reference is not null), false) as put_aside,
       coalesce(array_agg(distinct found.parts[1]) filter (where found.parts is not null), '{}') as addresses
  from app.jobs j
  left join app.lanes l on l.job = j.id
  left join app.outcomes o on o.lane = l.id
  left join lateral regexp_matches(o.result::text, '"((?:bronze|silver|gold)://[^"\\]+)"', 'g') found(parts) on true
 where j.job_id = any(%(jobs)s)
 group by j.job_id, j.state;
