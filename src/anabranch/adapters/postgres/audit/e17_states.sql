-- E17: replaying a job's events gives the states of the job and its nodes.
select j.job_id, concat('it is ', j.state, ', and its events say ', e.said) as what
  from app.jobs j
 cross join lateral (
       select case when x.kind in ('job.submitted', 'job.retried') then 'pending' else substr(x.kind, 5) end as said
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
