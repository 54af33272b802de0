-- Of schedules after one of them, the oldest tick of each kind that waits, where no job of an earlier one goes on; with what
-- its job is made of.
create function app.find_waiting_ticks(_after bigint, _limit integer)
returns table (
    id bigint, platform text, name text, workflow_hash text, cron text, timezone text, inputs jsonb, parameters jsonb,
    catch_up app.schedule_catch_up, by_scope text, trouble text, version integer, after timestamptz, next_at timestamptz,
    now timestamptz, at timestamptz, interval_start timestamptz, kind app.tick_kind
) language sql stable as $$
    select s.id, s.platform, s.name, s.workflow_hash, s.cron, s.timezone, s.inputs, s.parameters, s.catch_up, s.by_scope,
           s.trouble, s.version, s.after, nullif(s.next_at, 'infinity'), app.now(), t.at, t.interval_start, t.kind
      from (select distinct on (w.schedule, w.kind) w.*
              from app.schedule_ticks w
             where w.state = 'waiting' and w.schedule > _after
             order by w.schedule, w.kind, w.at) t
      join app.schedules s on s.id = t.schedule and s.paused_at is null and not s.retired
     where not exists (
        select from app.schedule_ticks o join app.jobs j on j.job_id = o.job_id
         where o.schedule = t.schedule and o.kind = t.kind and o.open and j.state in ('pending', 'running', 'waiting'))
     order by s.id, t.kind limit _limit;
$$;
