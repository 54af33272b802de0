-- The ticks of a schedule, the newest first, before an instant, with how their jobs stand.
create function app.list_ticks(_schedule bigint, _before timestamptz, _limit integer)
returns table (
    at timestamptz, interval_start timestamptz, kind app.tick_kind, state app.tick_state, reason text, job_id text,
    job_state app.job_state, recorded_at timestamptz, object text
) language sql stable as $$
    select t.at, t.interval_start, t.kind, t.state, t.reason, t.job_id, j.state, t.recorded_at, t.object
      from (select k.* from app.schedule_ticks k
             where k.schedule = _schedule and (_before is null or k.at < _before)
             order by k.at desc limit _limit) t
      left join app.jobs j on j.job_id = t.job_id
     order by t.at desc;
$$;
