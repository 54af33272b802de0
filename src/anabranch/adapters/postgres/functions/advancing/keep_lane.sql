-- Reopen a node's lane of the last generation: what completed is copied, everything else is due at once and continues from
-- its last attempt and checkpoint (E3, E4, W5). The old lane stays closed, so reports of its claims are stale. A lane with
-- nothing left to try is closed at once and creates its advance right; opening it twice is a no-op. Returns that right or null.
create function app.keep_lane(_job bigint, _generation integer, _node text, _session bigint)
returns bigint language plpgsql as $$
declare
    _old app.lanes;
    _of record;
    _left integer;
    _lane bigint;
begin
    select l.* into strict _old from app.lanes l
     where l.job = _job and l.node = _node and l.purpose = 'work' and l.generation < _generation
     order by l.generation desc limit 1;
    select r.* into strict _of from app.find_root(_job) r;
    insert into app.lanes (job, node, purpose, generation, queue, priority, handler, with_parameters, policy,
                           width, next_index, running, remaining, failed, tolerated, max_running, queue_timeout,
                           closed, opened_at, served_at, itemized, due_at, ripe, values, handed, tried, limit_key,
                           task_bytes, shared_bytes, owner, root, place, handler_version)
    values (_job, _node, 'work', _generation, _old.queue, _old.priority, _old.handler, _old.with_parameters,
            _old.policy, _old.width, _old.width, 0, _old.width, 0, _old.tolerated, _old.max_running,
            _old.queue_timeout, false, app.now(), app.now(), _old.itemized, app.now(), true, _old.values, _old.handed,
            app.last_attempt(_job, _node, 'work'), _old.limit_key, _old.task_bytes, _old.shared_bytes,
            _of.owner, _of.root, app.next_place(_old.queue, _old.priority, _of.owner, _of.root), _old.handler_version)
    on conflict do nothing
    returning id into _lane;
    if _lane is null then
        return null;
    end if;
    insert into app.items (lane, idx, key, handler, parameters, metadata)
    select _lane, i.idx, i.key, i.handler, i.parameters, i.metadata from app.items i where i.lane = _old.id;
    insert into app.outcomes (lane, idx, outcome, attempt, session, failures, crashes, claimed_at, started_at,
                              finished_at, result, reference, error, forced, handed)
    select _lane, o.idx, o.outcome, o.attempt, o.session, o.failures, o.crashes, o.claimed_at, o.started_at,
           o.finished_at, o.result, o.reference, o.error, o.forced, o.handed
      from app.outcomes o where o.lane = _old.id and o.outcome = 'completed';
    insert into app.checkpoints (lane, idx, attempt, number, phase, state, saved_at)
    select _lane, k.idx, k.attempt, k.number, k.phase, k.state, k.saved_at from app.checkpoints k where k.lane = _old.id;
    insert into app.due (lane, idx, attempt, failures, crashes, first_at, due_at, expires_at)
    select _lane, i, coalesce(tried.attempt, _old.tried), 0, 0, app.now(), app.now(),
           app.now() + app.seconds((_old.policy ->> 'total_timeout_seconds')::float)
      from generate_series(0, _old.width - 1) i
      left join app.outcomes o on o.lane = _old.id and o.idx = i
      left join lateral (
           select max(t.attempt) as attempt
             from (select o.attempt
                   union all select a.attempt from app.attempts a where a.lane = _old.id and a.idx = i
                   union all select c.attempt from app.claims c where c.lane = _old.id and c.idx = i
                   union all select d.attempt from app.due d where d.lane = _old.id and d.idx = i
                   union all select k.attempt from app.children k where k.lane = _old.id and k.idx = i) t) tried on true
     where o.outcome is distinct from 'completed';
    get diagnostics _left = row_count;
    update app.lanes l
       set remaining = _left, closed = _left = 0, ripe = _left > 0, due_at = case when _left > 0 then l.due_at end
     where l.id = _lane;
    return case when _left = 0 then app.make_right(_lane, _session) end;
end;
$$;
