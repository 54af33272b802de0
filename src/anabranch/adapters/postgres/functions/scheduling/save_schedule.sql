-- Add a schedule, or change the one that still has this _version, in all that _set says: {workflow, hash, cron, timezone,
-- inputs, parameters, overlap, catch_up, watch}. Ticks from before a new cron expression or time zone are no ticks of it. Two at once
-- for one platform wait for each other, so that both are counted. Returns `saved`, or why it can't be: `exists`, `too_many`,
-- `absent`, `of_workflow` (its file says it), `changed` (another did).
create function app.save_schedule(
    _platform text, _name text, _version integer, _set jsonb, _most integer, _by text, _by_scope text, _correlation_id text
) returns text language plpgsql as $$
declare
    _s app.schedules;
    _new app.schedules;
begin
    perform app.assert_read_committed();
    perform pg_advisory_xact_lock(hashtextextended('anabranch schedules of ' || _platform, 0));
    select s.* into _s from app.schedules s where s.platform = _platform and s.name = _name for no key update;
    if (_version is null and _s.id is not null) then
        return 'exists';
    elsif _version is null and (select count(*) >= _most from app.schedules s where s.platform = _platform) then
        return 'too_many';
    elsif _version is not null and _s.id is null then
        return 'absent';
    elsif _version is not null and _s.origin = 'workflow' then
        return 'of_workflow';
    elsif _version <> _s.version then
        return 'changed';
    end if;
    _new := jsonb_populate_record(null::app.schedules, _set);
    insert into app.schedules as s (platform, name, origin, workflow, workflow_hash, cron, timezone, inputs, parameters,
                                    overlap, catch_up, by_scope, after, made_at, made_by, changed_at, watch)
    values (_platform, _name, 'api', _new.workflow, _new.workflow_hash, _new.cron, _new.timezone, _new.inputs,
            _new.parameters, _new.overlap, _new.catch_up, _by_scope, app.now(), app.now(), _by, app.now(), _new.watch)
    on conflict (platform, name) do update
       set workflow = excluded.workflow, workflow_hash = excluded.workflow_hash, cron = excluded.cron,
           timezone = excluded.timezone, inputs = excluded.inputs, parameters = excluded.parameters,
           overlap = excluded.overlap, catch_up = excluded.catch_up, by_scope = excluded.by_scope, watch = excluded.watch,
           trouble = null,
           version = s.version + 1, changed_at = app.now(), next_at = null,
           after = case when (s.cron, s.timezone) is not distinct from (excluded.cron, excluded.timezone) then s.after else app.now() end;
    perform app.audit_change(_platform, _by, case when _version is null then 'schedule.added' else 'schedule.changed' end,
                              jsonb_build_object('schedule', _name, 'workflow', _new.workflow, 'cron', _new.cron,
                                                 'timezone', _new.timezone, 'watch', _new.watch), _correlation_id);
    return 'saved';
end;
$$;
