-- Let ticks of the past, [{at, interval_start}, …], wait for their jobs, which a duty makes one after another. A tick that has
-- a job, or waits for one, stays as it is. With _dry_run nothing is changed. Returns the ticks with the state that they had,
-- and whether they run.
create function app.backfill_schedule(
    _schedule bigint, _ticks jsonb, _dry_run boolean, _by text, _correlation_id text
) returns table (at timestamptz, interval_start timestamptz, state app.tick_state, job_id text, runs boolean)
language plpgsql as $$
declare
    _s app.schedules;
    _count integer := 0;
begin
    perform app.assert_read_committed();
    select s.* into _s from app.schedules s where s.id = _schedule and not s.retired for no key update;
    if not found then
        return;
    end if;
    for at, interval_start, state, job_id in
        select g.at, g.interval_start, t.state, t.job_id
          from jsonb_to_recordset(_ticks) as g(at timestamptz, interval_start timestamptz)
          left join app.schedule_ticks t on t.schedule = _schedule and t.at = g.at
         where g.at <= app.now() order by g.at
    loop
        runs := coalesce(state in ('skipped', 'missed', 'failed'), true);
        if runs and not _dry_run then
            insert into app.schedule_ticks as t (schedule, at, interval_start, kind, state, recorded_at)
            values (_schedule, backfill_schedule.at, backfill_schedule.interval_start, 'backfill', 'waiting', app.now())
            on conflict on constraint schedule_ticks_pkey do update
               set kind = excluded.kind, state = excluded.state, reason = null, recorded_at = excluded.recorded_at;
            _count := _count + 1;
        end if;
        return next;
    end loop;
    if _count > 0 then
        perform app.audit_change(_s.platform, _by, 'schedule.backfilled',
                                  jsonb_build_object('schedule', _s.name, 'ticks', _count), _correlation_id);
    end if;
end;
$$;
