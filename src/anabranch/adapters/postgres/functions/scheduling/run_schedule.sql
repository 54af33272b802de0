-- Make a tick now that no cron expression asked for, with its job, also while the schedule is paused. No row: the schedule was
-- changed or retired meanwhile.
create function app.run_schedule(
    _session bigint, _workflows jsonb, _submissions jsonb, _schedule bigint, _version integer, _at timestamptz,
    _interval_start timestamptz, _by text, _correlation_id text
) returns table (state app.tick_state, job_id text, rights bigint[]) language plpgsql as $$
declare
    _s app.schedules;
begin
    perform app.assert_read_committed();
    select s.* into _s from app.schedules s
     where s.id = _schedule and s.version = _version and not s.retired for no key update;
    if not found then
        return;
    end if;
    insert into app.schedule_ticks (schedule, at, interval_start, kind, state, recorded_at)
    values (_schedule, _at, _interval_start, 'manual', 'waiting', app.now())
    on conflict do nothing;
    if not found then
        return;
    end if;
    return query select t.* from app.start_tick(_session, _workflows, _submissions, _s, _at, null) t;
    perform app.audit_change(_s.platform, _by, 'schedule.run', jsonb_build_object('schedule', _s.name), _correlation_id);
end;
$$;
