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
