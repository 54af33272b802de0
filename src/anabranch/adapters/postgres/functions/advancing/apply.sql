-- Apply what the holder of an advance right planned, and spend the right: states, lanes and events in one commit (E17).
-- SQL holds no graph rule. Returns null if the right was lost, false if the job changed since it was read (plan again),
-- true if applied; and the advance rights that it created. The job is locked without its key: reports that create a right
-- refer to it while they hold lanes, and must not wait here.
create function app.apply(_right bigint, _session bigint, _takes integer, _version integer, _transitions jsonb)
returns table (applied boolean, rights bigint[]) language plpgsql as $$
declare
    _job app.jobs;
    _t jsonb;
    _made bigint;
begin
    perform app.assert_read_committed();
    select j.* into _job from app.jobs j join app.rights r on r.job = j.id where r.id = _right for no key update of j;
    perform from app.rights r where r.id = _right and r.session = _session and r.takes = _takes for update;
    if not found then
        return query select null::boolean, '{}'::bigint[];
        return;
    end if;
    if _job.last_event <> _version then
        return query select false, '{}'::bigint[];
        return;
    end if;
    rights := '{}';
    delete from app.rights where id = _right;  -- the plan may give one with the same key
    for _t in select t from jsonb_array_elements(_transitions) as t loop
        case _t ->> 'do'
        when 'open' then
            _made := app.open_lane(_job.id, _job.generation, _t, _session);
            rights := rights || _made;
        when 'keep' then
            _made := app.keep_lane(_job.id, _job.generation, _t ->> 'node', _session);
            rights := rights || _made;
        when 'wait' then
            _made := app.open_wait(_job.id, _t, _session);
            rights := rights || _made;
        when 'node' then
            perform app.set_node(_job.id, _t);
        when 'job' then
            perform app.set_job(_job.id, _t);
        when 'cleanup' then
            _made := app.begin_cleanup(_job.id, _t -> 'end', _session);
            rights := rights || _made;
        when 'end' then
            perform app.set_job(_job.id, (select j.ending from app.jobs j where j.id = _job.id));
        end case;
    end loop;
    return query select true, array_remove(apply.rights, null);
end;
$$;
