-- Remove a schedule with its history; its jobs stay. One that a workflow's file says can't be, unless it is retired. Returns
-- `removed`, `absent` or `of_workflow`.
create function app.remove_schedule(_platform text, _schedule bigint, _by text, _correlation_id text) returns text
language plpgsql as $$
declare
    _s app.schedules;
begin
    perform app.assert_read_committed();
    select s.* into _s from app.schedules s
     where s.id = _schedule and (_platform is null or s.platform = _platform) for update;
    if not found then
        return 'absent';
    elsif _s.origin = 'workflow' and not _s.retired then
        return 'of_workflow';
    end if;
    delete from app.schedules s where s.id = _schedule;
    perform app.audit_change(_s.platform, _by, 'schedule.removed', jsonb_build_object('schedule', _s.name), _correlation_id);
    return 'removed';
end;
$$;
