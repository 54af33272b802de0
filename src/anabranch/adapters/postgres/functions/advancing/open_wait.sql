-- Open a gate or a wait. One whose signal came before, or whose time is up already, gives its right at once; else
-- app.signal or app.end_waits does. Returns that right, or null.
create function app.open_wait(_job bigint, _open jsonb, _session bigint) returns bigint language plpgsql as $$
declare
    _node text := _open ->> 'node';
    _until timestamptz := coalesce((_open ->> 'until')::timestamptz,
                                   app.now() + app.seconds((_open ->> 'seconds')::float));
    _generation integer;
begin
    select n.generation into strict _generation from app.nodes n where n.job = _job and n.name = _node;
    insert into app.waits (job, node, generation, until, is_date)
    values (_job, _node, _generation, _until, _open ->> 'until' is not null) on conflict do nothing;
    if not found then
        return null;
    end if;
    if (_open ->> 'is_gate')::boolean then
        perform from app.signals s where s.job = _job and s.node = _node and s.generation = _generation;
        return case when found then app.end_wait(_job, _node, 'gate', _session) end;
    end if;
    return case when _until <= app.now() then app.end_wait(_job, _node, 'wait', _session) end;
end;
$$;
