-- Take tasks for a session, due again or fresh, from the most urgent lane that was served longest ago (E22). At most _limit, but for lanes of a handler in _fast as many as that says: short tasks are taken ahead.
-- Lanes that others are at are passed over; with _wait, the first is waited for when nothing else was found.
-- Answers {"lanes": {id: facts}, "tasks": [[lane, index, attempt, failures, crashes, key, handler, parameters,
-- predecessor], …]}, or null. A dead session is told so (AN001).
create function app.claim(_session bigint, _queues text[], _limit integer, _fast jsonb, _wait boolean)
returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
declare
    _lanes bigint[];
    _indexes integer[];
    _lane app.lanes;
    _left integer;
    _take integer;
begin
    perform app.assert_read_committed();
    perform from app.sessions s where s.id = _session and s.dead_at is null;
    if not found then
        raise exception 'session % is gone', _session using errcode = 'AN001';
    end if;
    select coalesce(array_agg(d.lane), '{}'), coalesce(array_agg(d.idx), '{}') into _lanes, _indexes
      from app.claim_due(_session, _queues, _limit, app.first_lane(_queues)) d;
    _left := _limit - cardinality(_lanes);
    while _left > 0 loop
        _lane := app.lock_lane(_queues, _wait and _lanes = '{}');
        exit when _lane.id is null;
        _take := least(coalesce((_fast ->> _lane.handler)::integer, _left), _lane.width - _lane.next_index,
                       _lane.max_running - _lane.running);
        insert into app.claims (lane, idx, attempt, session, failures, crashes, first_at, claimed_at)
        select _lane.id, i, 1, _session, 0, 0, app.now(), app.now()
          from generate_series(_lane.next_index, _lane.next_index + _take - 1) i;
        update app.lanes l
           set next_index = l.next_index + _take, running = l.running + _take, served_at = app.now()
         where l.id = _lane.id;
        _lanes := _lanes || array_fill(_lane.id, array[_take]);
        _indexes := _indexes || array(select generate_series(_lane.next_index, _lane.next_index + _take - 1));
        _left := _left - _take;
    end loop;
    if _lanes = '{}' then
        return null;
    end if;
    return (
        select jsonb_build_object(
            'lanes', (select jsonb_object_agg(l, app.lane_facts(l)) from (select distinct unnest(_lanes) as l) used),
            'tasks', jsonb_agg(jsonb_build_array(
                c.lane, c.idx, c.attempt, c.failures, c.crashes, coalesce(i.key, c.idx::text),
                coalesce(i.handler, l.handler), i.parameters,
                case when l.policy ? 'lineage' then
                    app.task_result(l.job, l.policy ->> 'lineage', coalesce(i.key, c.idx::text)) end)))
          from unnest(_lanes, _indexes) as t(lane, idx)
          join app.claims c on c.lane = t.lane and c.idx = t.idx
          join app.lanes l on l.id = c.lane
          left join app.items i on i.lane = c.lane and i.idx = c.idx);
end;
$$;
