-- E17: a job's events are numbered from 1 without gaps, up to the last that the job knows of.
select j.job_id, concat('its last event is ', j.last_event, ', and there are ', e.rows, ', from ', e.first, ' to ', e.last) as what
  from app.jobs j
 cross join lateral (
       select count(*) as rows, min(x.seq) as first, max(x.seq) as last from app.events x where x.job = j.id) e
 where (%(since)s::interval is null or j.finished_at is null or j.finished_at >= app.now() - %(since)s::interval)
   and (e.rows, e.first, e.last) is distinct from (j.last_event::bigint, 1, j.last_event)
