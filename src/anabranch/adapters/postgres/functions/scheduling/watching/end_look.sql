-- End a look: all was seen (_complete), or not, and why (_trouble). The next one is due after the time that is set. That looks
-- begin to fail is noted among the ticks, once. False: another process looks by now.
create function app.end_look(_session bigint, _schedule bigint, _look integer, _complete boolean, _trouble text)
returns boolean language plpgsql as $$
declare
    _s app.schedules;
    _failed boolean;
begin
    perform app.assert_read_committed();
    select s.* into _s from app.schedules s where s.id = _schedule for no key update;
    select w.trouble is not null into _failed from app.watches w
     where w.schedule = _schedule and w.look = _look and w.session = _session for no key update;
    if not found then
        return false;
    end if;
    update app.watches w
       set session = null, next_at = app.now() + make_interval(secs => (_s.watch ->> 'poll_seconds')::float),
           complete = w.complete or _complete, looked_at = case when _complete then app.now() else w.looked_at end,
           trouble = case when _complete then null else coalesce(_trouble, w.trouble) end,
           troubled_at = case when not _complete then
               coalesce(w.troubled_at, case when _trouble is not null then app.now() end) end
     where w.schedule = _schedule;
    if _trouble is not null and not _failed then
        insert into app.schedule_ticks (schedule, at, kind, state, reason, recorded_at)
        values (_schedule, app.next_tick_at(_schedule), 'regular', 'failed', _trouble, app.now());
    end if;
    return true;
end;
$$;
