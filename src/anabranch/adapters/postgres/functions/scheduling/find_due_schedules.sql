-- Schedules whose ticks must be planned or made, in the order of their ids, after one of them. now: the time that decides.
create function app.find_due_schedules(_after bigint, _limit integer)
returns table (
    id bigint, platform text, name text, workflow_hash text, cron text, timezone text, inputs jsonb, parameters jsonb,
    catch_up app.schedule_catch_up, by_scope text, trouble text, version integer, after timestamptz, next_at timestamptz,
    now timestamptz
) language sql stable as $$
    select s.id, s.platform, s.name, s.workflow_hash, s.cron, s.timezone, s.inputs, s.parameters, s.catch_up, s.by_scope,
           s.trouble, s.version, s.after, s.next_at, app.now()
      from app.schedules s
     where s.cron is not null and s.paused_at is null and not s.retired and s.id > _after and (s.next_at is null or s.next_at <= app.now())
     order by s.id limit _limit;
$$;
