-- Deal with the ticks of a schedule up to its next one: record those that were missed, [{at, interval_start, reason}, …], and
-- make _at with its job, if it is given, all in one commit. Only one process does: whoever finds the schedule as it was read
-- (_version, _after, _due) and not locked. A tick that has a job gets no second one; one that was missed gets its job if it
-- comes again because the clock was set back. _reason: why there can't be a job. Returns the state of the tick and the rights
-- to advance its job.
create function app.tick_schedule(
    _session bigint, _workflows jsonb, _submissions jsonb, _schedule bigint, _version integer, _after timestamptz,
    _due timestamptz, _missed jsonb, _at timestamptz, _interval_start timestamptz, _reason text, _next timestamptz
) returns table (state app.tick_state, job_id text, rights bigint[]) language plpgsql as $$
declare
    _s app.schedules;
begin
    perform app.assert_read_committed();
    select s.* into _s from app.schedules s
     where s.id = _schedule and s.version = _version and s.after = _after and s.next_at is not distinct from _due
       and s.paused_at is null and not s.retired
       for no key update skip locked;
    if not found then
        return;
    end if;
    insert into app.schedule_ticks (schedule, at, interval_start, kind, state, reason, recorded_at)
    select _schedule, m.at, m.interval_start, 'regular', 'missed', m.reason, app.now()
      from jsonb_to_recordset(_missed) as m(at timestamptz, interval_start timestamptz, reason text)
    on conflict do nothing;
    update app.schedules s
       set after = coalesce(_at, (select max((m ->> 'at')::timestamptz) from jsonb_array_elements(_missed) m), s.after),
           next_at = coalesce(_next, 'infinity')
     where s.id = _schedule;
    if _at is null then
        return;
    end if;
    insert into app.schedule_ticks as t (schedule, at, interval_start, kind, state, recorded_at)
    values (_schedule, _at, _interval_start, 'regular', 'waiting', app.now())
    on conflict (schedule, at) do update set state = 'waiting', reason = null, recorded_at = excluded.recorded_at
     where t.state = 'missed';
    if found then
        return query select t.* from app.start_tick(_session, _workflows, _submissions, _s, _at, _reason) t;
    end if;
end;
$$;
