-- How many seconds passed between the ends of a job and its retries. Only these events are read, however many it has.
create function app.idle_seconds(_job bigint) returns float language sql stable as $$
    select coalesce(extract(epoch from sum(r.at - e.at)), 0)::float
      from app.events r
     cross join lateral (
           select x.at from app.events x
            where x.job = r.job and x.seq < r.seq and x.kind in ('job.completed', 'job.failed', 'job.cancelled')
            order by x.seq desc limit 1) e
     where r.job = _job and r.kind = 'job.retried';
$$;
