-- The stuck ones (E1) among the next open jobs after an id. Last: where to go on, or null after the last of all.
select case when p.looked_at = %(limit)s then p.last end as last,
       coalesce((select jsonb_agg(f.job_id) from (
           select s.job_id from app.stuck_jobs s where s.id > %(after)s and s.id <= p.last limit 10) f), '[]') as stuck
  from (select max(o.id) as last, count(*) as looked_at from (
           select j.id from app.jobs j where j.state in ('pending', 'running', 'waiting') and j.id > %(after)s
            order by j.id limit %(limit)s) o) p;
