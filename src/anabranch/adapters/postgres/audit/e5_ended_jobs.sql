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
