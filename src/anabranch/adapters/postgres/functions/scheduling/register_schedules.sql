-- Take over what workflow files say of schedules: [{name, workflow, workflow_hash, cron, …}, …] belong to _platform. One that
-- no file names any more is retired where _complete, and keeps its history; its ticks that wait are skipped. A pause is the
-- operator's and stays. It waits for others that set schedules of the platform. Returns the names that schedules made otherwise
-- have already: those stay as they are.
create function app.register_schedules(_platform text, _schedules jsonb, _complete boolean)
returns table (taken text) language plpgsql as $$
declare
    _new app.schedules;
    _changed text;
begin
    perform app.assert_read_committed();
    perform pg_advisory_xact_lock(hashtextextended('anabranch schedules of ' || _platform, 0));
    for _new in
        select p.* from jsonb_array_elements(_schedules) g cross join jsonb_populate_record(null::app.schedules, g) p
         order by p.name
    loop
        _changed := null;
        insert into app.schedules as s (platform, name, origin, workflow, workflow_hash, cron, timezone, inputs, parameters,
                                        overlap, catch_up, by_scope, trouble, after, made_at, made_by, changed_at,
                                        watch)
        values (_platform, _new.name, 'workflow', _new.workflow, _new.workflow_hash, _new.cron, _new.timezone, _new.inputs,
                _new.parameters, _new.overlap, _new.catch_up, _new.by_scope, _new.trouble, app.now(), app.now(),
                'workflow:' || _new.workflow, app.now(), _new.watch)
        on conflict (platform, name) do update
           set workflow_hash = excluded.workflow_hash, cron = excluded.cron, timezone = excluded.timezone,
               inputs = excluded.inputs, parameters = excluded.parameters, overlap = excluded.overlap,
               catch_up = excluded.catch_up, by_scope = excluded.by_scope, trouble = excluded.trouble, watch = excluded.watch,
               retired = false,
               version = s.version + 1, changed_at = app.now(), next_at = null,
               after = case when (s.cron, s.timezone, s.retired) is not distinct from (excluded.cron, excluded.timezone, false)
                            then s.after else app.now() end
         where s.origin = 'workflow'
           and (s.workflow_hash, s.cron, s.timezone, s.inputs, s.parameters, s.overlap, s.catch_up, s.by_scope,
                coalesce(s.trouble, ''), s.watch, s.retired)
               is distinct from (excluded.workflow_hash, excluded.cron, excluded.timezone, excluded.inputs,
                                 excluded.parameters, excluded.overlap, excluded.catch_up, excluded.by_scope,
                                 coalesce(excluded.trouble, ''), excluded.watch, false)
        returning case when s.version = 1 then 'schedule.added' else 'schedule.changed' end into _changed;
        if _changed is not null then
            perform app.audit_change(_platform, 'workflow:' || _new.workflow, _changed,
                                      jsonb_build_object('schedule', _new.name, 'cron', _new.cron,
                                                         'timezone', _new.timezone, 'watch', _new.watch), null);
        end if;
        return query select s.name from app.schedules s
                      where s.platform = _platform and s.name = _new.name and s.origin <> 'workflow';
    end loop;
    if _complete then
        perform app.audit_change(_platform, 'workflow:' || r.workflow, 'schedule.retired',
                                  jsonb_build_object('schedule', r.name), null)
           from app.schedules r
          where r.platform = _platform and r.origin = 'workflow' and not r.retired
            and not exists (select from jsonb_array_elements(_schedules) g where g ->> 'name' = r.name);
        with retired as (
            update app.schedules s set retired = true, next_at = null, changed_at = app.now(), version = s.version + 1
             where s.platform = _platform and s.origin = 'workflow' and not s.retired
               and not exists (select from jsonb_array_elements(_schedules) g where g ->> 'name' = s.name)
            returning s.id)
        update app.schedule_ticks t set state = 'skipped', reason = 'the schedule was retired while it waited'
          from retired r where t.schedule = r.id and t.state = 'waiting';
    end if;
end;
$$;
