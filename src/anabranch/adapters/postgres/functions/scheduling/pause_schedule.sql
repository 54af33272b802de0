-- Pause a schedule, or let it go on: ticks in between are none of its. Whether there is such a schedule, as far as _platform,
-- which may be null, may see.
create function app.pause_schedule(_platform text, _schedule bigint, _paused boolean, _by text, _correlation_id text)
returns boolean language plpgsql as $$
declare
    _s app.schedules;
begin
    perform app.assert_read_committed();
    select s.* into _s from app.schedules s
     where s.id = _schedule and (_platform is null or s.platform = _platform) for no key update;
    if not found then
        return false;
    end if;
    if _paused = (_s.paused_at is null) then
        update app.schedules s
           set paused_at = case when _paused then app.now() end, paused_by = case when _paused then _by end,
               after = case when _paused then s.after else app.now() end, next_at = null
         where s.id = _schedule;
        perform app.audit_change(_s.platform, _by, case when _paused then 'schedule.paused' else 'schedule.resumed' end,
                                  jsonb_build_object('schedule', _s.name), _correlation_id);
    end if;
    return true;
end;
$$;
