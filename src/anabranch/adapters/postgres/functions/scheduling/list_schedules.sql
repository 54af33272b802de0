-- Schedules, the newest first, before one of them; those of _platform and the one with this name, where they are given. last_*:
-- of the last regular tick. looked_at, look_error: of the looks at what it watches. now: the time that decides.
create function app.list_schedules(_platform text, _name text, _before bigint, _limit integer)
returns table (
    id bigint, platform text, name text, origin app.schedule_origin, workflow text, workflow_hash text, cron text,
    timezone text, inputs jsonb, parameters jsonb, overlap app.schedule_overlap, catch_up app.schedule_catch_up,
    by_scope text, trouble text, retired boolean, version integer, after timestamptz, made_at timestamptz, made_by text,
    changed_at timestamptz, paused_at timestamptz, paused_by text, waiting bigint, last_at timestamptz,
    last_state app.tick_state, last_job_id text, watch jsonb, looked_at timestamptz, look_error text,
    now timestamptz
) language sql stable as $$
    select s.id, s.platform, s.name, s.origin, s.workflow, s.workflow_hash, s.cron, s.timezone, s.inputs, s.parameters,
           s.overlap, s.catch_up, s.by_scope, s.trouble, s.retired, s.version, s.after, s.made_at, s.made_by, s.changed_at,
           s.paused_at, s.paused_by,
           (select count(*) from app.schedule_ticks w where w.schedule = s.id and w.state = 'waiting'),
           t.at, t.state, t.job_id, s.watch, w.looked_at, w.trouble, app.now()
      from app.schedules s
      left join app.watches w on w.schedule = s.id and s.watch is not null
      left join lateral (select k.* from app.schedule_ticks k where k.schedule = s.id and k.kind = 'regular'
                          order by k.at desc limit 1) t on true
     where (_platform is null or s.platform = _platform) and (_name is null or s.name = _name)
       and (_before is null or s.id < _before)
     order by s.id desc limit _limit;
$$;
