-- Claim tasks for a session, due again or new, from the most urgent lanes, owners and their root jobs in turn (E22): at most
-- _limit, or, for handlers in _fast (handler: how many to prefetch), up to that many. A claim is of at most 32 lanes and about
-- 8 MB, or one task of any size. Locked lanes are skipped; with _wait, the first is waited for if nothing else was found.
-- A lane that needs a version of its handler which the session does not have is left to others.
-- A session that drains gets nothing; a lane for which a limit leaves no room is held back, so that each is met once.
-- The token is drawn for each call and part of the fence (E3): no claim of another history of the database has it.
-- Returns {"token": token, "lanes": {id: facts}, "fresh": [[lane, first index, count, [[index, key, handler, parameters], …]], …],
-- "tasks": [[lane, index, attempt, failures, crashes, key, handler, parameters, predecessor, checkpoint?], …],
-- "metadata": [[lane, index, metadata], …]}, or null. A dead session gets an error (AN001).
-- Its plans and those of its parts are pinned: nothing depends on what the planner knows of tables that fill and empty.
create function app.claim(_session bigint, _queues text[], _limit integer, _fast jsonb, _wait boolean)
returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_material = off set enable_memoize = off set jit = off as $$
declare
    _lane app.lanes;
    _turns app.turns[];
    _alone boolean;
    _stored bigint;
    _at integer;
    _beside boolean;
    _counts boolean := false;
    _ends boolean;
    _share float;
    _ahead float := 1;
    _left integer := _limit;
    _due integer;
    _new integer;
    _lanes bigint[] := '{}';
    _fresh jsonb := '[]';
    _items jsonb;
    _noted jsonb;
    _metadata jsonb := '[]';
    _tasks bigint[] := '{}';
    _indexes integer[] := '{}';
    _draining boolean;
    _limited boolean;
    _room integer;
    _full integer := 0;
    _passed bigint[] := '{}';
    _offers text[];
    _token bigint := (random() * 9007199254740991)::bigint;
    _bytes bigint := 8000000;
begin
    perform app.assert_read_committed();
    select s.draining into _draining from app.sessions s where s.id = _session and s.dead_at is null;
    if not found then
        raise exception 'session % is gone', _session using errcode = 'AN001';
    end if;
    if _draining then
        return null;
    end if;
    _limited := exists (select from app.limits) or exists (select from app.breakers b where b.is_open);
    if _limited then
        lock table app.claims in row exclusive mode;
        perform app.free_held(_queues);
        perform app.free_probes(_queues);
    end if;
    perform app.ripen(_queues);
    _offers := app.list_offers(_session);
    _turns := app.find_turns(_queues);
    _alone := cardinality(_turns) = 1;
    if _alone then
        _stored := _turns[1].number;
    else
        _stored := (select max(t.number) from unnest(_turns) t);
    end if;
    while _left > 0 and _ahead > 0 and cardinality(_lanes) < 32 loop
        _lane := app.lock_lane(_turns, _wait and _lanes = '{}' and not _limited, _passed, _offers);
        exit when _lane.id is null;
        exit when _lanes <> '{}' and _bytes - _lane.shared_bytes < _lane.task_bytes;  -- before room for a probe is noted
        if _limited then
            _room := app.find_room(_lane);
            if _room = 0 then
                _full := _full + 1;
                _passed := _passed || _lane.id;
                exit when _full = 8;
                continue;
            end if;
        end if;
        _bytes := _bytes - _lane.shared_bytes;
        _share := (_fast ->> _lane.handler)::float;
        _new := least(coalesce(ceil(_ahead * _share), _left), _lane.max_running - _lane.running, _room,
                      case when _lane.task_bytes > 0 then greatest(_bytes / _lane.task_bytes, 1) end);
        _due := 0;
        if _lane.ripe then
            _indexes := _indexes || app.take_due(_lane.id, _session, _token, _new);
            _due := cardinality(_indexes) - cardinality(_tasks);
            _tasks := _tasks || array_fill(_lane.id, array[_due]);
        end if;
        _new := least(_new - _due, _lane.width - _lane.next_index);
        insert into app.claims (lane, idx, attempt, session, token, failures, crashes, first_at, claimed_at)
        select _lane.id, i, _lane.tried + 1, _session, _token, 0, 0, app.now(), app.now()
          from generate_series(_lane.next_index, _lane.next_index + _new - 1) i;
        _at := 1;
        while (_turns[_at].queue, _turns[_at].priority, _turns[_at].owner) <> (_lane.queue, _lane.priority, _lane.owner) loop
            _at := _at + 1;
        end loop;
        -- Places matter only beside others: a lane with more to give that is its owner's only one keeps its place in the
        -- index, so that a long transaction elsewhere does not let the versions of it pile up there.
        _ends := not _lane.ripe and _lane.next_index + _new = _lane.width;
        _beside := (not _ends or _lane.place > _turns[_at].place) and (_limited or exists (
            select from app.lanes o
             where o.queue = _lane.queue and o.priority = _lane.priority and o.owner = _lane.owner and o.claimable
               and o.id <> _lane.id limit 1));
        if _beside then
            _turns[_at].place := greatest(_turns[_at].place, _lane.place);
        end if;
        if not _beside and not _alone then
            _counts := (select count(*) > 1 from unnest(_turns) t where t.priority = _lane.priority);
        end if;
        if _beside or _counts then
            _turns[_at].number := nextval('app.turn_numbers');
        end if;
        update app.lanes l
           set next_index = l.next_index + _new, running = l.running + _due + _new, served_at = app.now(),
               place = case when _beside and not _ends then 1 + greatest(_turns[_at].place, (
                   select o.place from app.lanes o
                    where o.root = _lane.root and o.queue = _lane.queue and o.priority = _lane.priority
                      and (o.claimable or o.held is not null and not o.closed)
                    order by o.place desc limit 1)) else l.place end
         where l.id = _lane.id;
        if _lane.policy ?| '{lineage,heir_of}' then
            _tasks := _tasks || array_fill(_lane.id, array[_new]);
            _indexes := _indexes || array(select generate_series(_lane.next_index, _lane.next_index + _new - 1));
        else
            _items := null;
            if _lane.itemized then
                select jsonb_agg(jsonb_build_array(i.idx, i.key, i.handler, i.parameters)),
                       jsonb_agg(jsonb_build_array(i.lane, i.idx, i.metadata)) filter (where i.metadata <> 'null')
                  into _items, _noted
                  from app.items i
                 where i.lane = _lane.id and i.idx >= _lane.next_index and i.idx < _lane.next_index + _new;
                _metadata := _metadata || coalesce(_noted, '[]');
            end if;
            _fresh := _fresh || jsonb_build_array(jsonb_build_array(_lane.id, _lane.next_index, _new, _items));
        end if;
        _lanes := _lanes || _lane.id;
        _bytes := _bytes - _lane.task_bytes::bigint * (_due + _new);
        _ahead := _ahead - coalesce((_due + _new) / _share, 0);
        _left := _left - case when _share is null then _due + _new else 0 end;
    end loop;
    if _lanes = '{}' then
        return null;
    end if;
    if not _alone or _turns[1].number > _stored then
        perform app.save_turn(t) from unnest(_turns) t where t.number > _stored;
    end if;
    if _tasks <> '{}' then
        select jsonb_agg(jsonb_build_array(i.lane, i.idx, i.metadata)) into _noted
          from unnest(_tasks, _indexes) t(lane, idx)
         cross join lateral (
               select x.lane, x.idx, x.metadata from app.items x
                where x.lane = t.lane and x.idx = t.idx and x.metadata <> 'null' limit 1) i;
        _metadata := _metadata || coalesce(_noted, '[]');
    end if;
    return jsonb_build_object('token', _token, 'lanes', app.lane_facts(_lanes), 'fresh', _fresh,
                              'tasks', app.describe_claims(_tasks, _indexes), 'metadata', _metadata);
end;
$$;
