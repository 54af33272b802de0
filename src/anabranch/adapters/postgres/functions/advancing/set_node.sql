-- Move a node to a state, with its event; where its tasks were tried again since the last event of that, the sum of it comes
-- before; how long it took is counted. The caller holds the job's row.
create function app.set_node(_job bigint, _change jsonb) returns void language plpgsql as $$
declare
    _state app.node_state := (_change ->> 'state')::app.node_state;
    _lanes bigint[];
    _reported bigint;
    _repeats jsonb;
begin
    update app.nodes
       set state = _state, error = nullif(_change -> 'error', 'null'), output = nullif(_change -> 'output', 'null'),
           opened_at = case when _state = 'running' then app.now() else opened_at end,
           finished_at = case when _state <> 'running' then app.now() end
     where job = _job and name = _change ->> 'node' and state <> _state;
    if found then
        if _state <> 'running' then
            perform app.measure_node(_job, _change ->> 'node');
            delete from app.waits where job = _job and node = _change ->> 'node';
            select array_agg(l.id), sum(l.reported) into _lanes, _reported from app.lanes l
             where l.job = _job and l.node = _change ->> 'node' and l.reported is not null and not l.superseded;
        end if;
        if _lanes is not null then
            _repeats := app.count_repeats(_lanes);
            if (_repeats ->> 'attempts')::integer > _reported then
                perform app.add_event(_job, 'tasks.repeated', _change ->> 'node', _repeats);
            end if;
        end if;
        perform app.add_event(_job, 'node.' || _state, _change ->> 'node', coalesce(
            nullif(_change -> 'error', 'null'), nullif(_change -> 'output', 'null'), '{}'));
    end if;
end;
$$;
