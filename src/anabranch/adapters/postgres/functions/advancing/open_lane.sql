-- Open a node's lane with its tasks, whole or not at all (E11). Opening it twice is a no-op; one of width 0 is closed
-- at once and gives its right. Where the tasks of the node named in `heir_of` handed parameters over, its policy names
-- their lane: all of them have ended, so that this is known for good; and so is how much data a task brings to its claim.
-- Returns that right, or null.
create function app.open_lane(_job bigint, _generation integer, _open jsonb, _session bigint)
returns bigint language plpgsql as $$
declare
    _source jsonb := _open -> 'source';
    _from bigint;
    _width integer := coalesce((_source ->> 'count')::integer, jsonb_array_length(nullif(_source -> 'items', 'null')));
    _heir_of bigint;
    _purpose app.lane_purpose := _open ->> 'purpose';
    _tried integer := case when _generation > 0 then app.last_attempt(_job, _open ->> 'node', _purpose) else 0 end;
    _lane bigint;
    _bytes integer := 0;
    _staged integer;
    _priority smallint;
    _shared integer;
    _of record;
begin
    select coalesce((_open ->> 'priority')::smallint, j.priority), app.data_bytes(j.parameters) into strict _priority, _shared
      from app.jobs j where j.id = _job;
    select r.* into strict _of from app.find_root(_job) r;
    if _source ->> 'node' is not null then
        select l.id, case when _source ->> 'kind' = 'match' then l.width end into strict _from, _width
          from app.lanes l
         where l.job = _job and l.node = _source ->> 'node' and l.purpose = (_source ->> 'purpose')::app.lane_purpose
           and not l.superseded
         order by l.generation desc limit 1;
    end if;
    if _source ->> 'kind' = 'plan' then
        select jsonb_array_length(o.result) into strict _width from app.outcomes o where o.lane = _from and o.idx = 0;
    end if;
    if _open ->> 'heir_of' is not null then
        select case when l.handed then l.id end into _heir_of
          from app.lanes l
         where l.job = _job and l.node = _open ->> 'heir_of' and l.purpose = 'work' and not l.superseded
         order by l.generation desc limit 1;
    end if;
    insert into app.lanes (job, node, purpose, generation, queue, priority, handler, with_parameters, policy,
                           width, next_index, running, remaining, failed, tolerated, max_running, queue_timeout,
                           closed, opened_at, served_at, itemized, ripe, values, tried, limit_key, shared_bytes,
                           owner, root, place, handler_version)
    values (_job, _open ->> 'node', _purpose, _generation, _open ->> 'queue',
            _priority, _open ->> 'handler', (_open ->> 'with_parameters')::boolean,
            (_open -> 'policy') - 'values' || jsonb_strip_nulls(jsonb_build_object('heir_of', _heir_of)),
            _width, 0, 0, _width, 0, (_open ->> 'tolerated')::integer, (_open ->> 'max_running')::integer,
            app.seconds((_open #>> '{policy,queue_timeout_seconds}')::float),
            _width = 0, app.now(), app.now(), _source ->> 'kind' <> 'count', false,
            _open #> '{policy,values}', _tried, _open ->> 'limit_key',
            coalesce(octet_length(_open #>> '{policy,values}'), 0) + _shared,
            _of.owner, _of.root, app.next_place(_open ->> 'queue', _priority, _of.owner, _of.root),
            (_open ->> 'handler_version')::integer)
    on conflict do nothing
    returning id into _lane;
    if _lane is null then
        delete from app.staged_items s where s.job = _job and s.node = _open ->> 'node';
        return null;
    end if;
    if _source ->> 'kind' = 'plan' then
        with made as (
            insert into app.items (lane, idx, key, handler, parameters, metadata)
            select _lane, (i.idx - 1)::integer, nullif(i.item ->> 'key', (i.idx - 1)::text), i.item ->> 'handler',
                   i.item -> 'parameters', i.item -> 'metadata'
              from app.outcomes o, jsonb_array_elements(o.result) with ordinality as i(item, idx)
             where o.lane = _from and o.idx = 0
            returning parameters, metadata)
        select max(app.data_bytes(m.parameters) + app.data_bytes(m.metadata)) into _bytes from made m;
    elsif _source ->> 'kind' = 'items' then
        with made as (
            insert into app.items (lane, idx, parameters)
            select _lane, (i.idx - 1)::integer, i.item
              from jsonb_array_elements(_source -> 'items') with ordinality as i(item, idx)
            returning parameters)
        select max(app.data_bytes(m.parameters)) into _bytes from made m;
    elsif _source ->> 'kind' = 'staged' then
        with taken as (
            delete from app.staged_items s where s.job = _job and s.node = _open ->> 'node'
            returning s.generation, s.idx, s.item),
        made as (
            insert into app.items (lane, idx, parameters)
            select _lane, t.idx, t.item from taken t where t.generation = _generation
            returning parameters)
        select count(*), max(app.data_bytes(m.parameters)) into _staged, _bytes from made m;
        if _staged <> _width then  -- another holder of the right took them; the next one stages them again
            raise exception 'of % items % were staged', _width, _staged using errcode = 'serialization_failure';
        end if;
    elsif _source ->> 'kind' = 'match' then
        insert into app.items (lane, idx, key, parameters)
        select _lane, i.idx, i.key, '{}' from app.items i where i.lane = _from and i.key is not null;
    end if;
    if _open #>> '{policy,lineage}' is not null then
        _bytes := coalesce(_bytes, 0) + (
            select coalesce(app.inherited_bytes(l.id, true), 0) from app.lanes l
             where l.job = _job and l.node = _open #>> '{policy,lineage}' and l.purpose = 'work'
             order by l.generation desc limit 1);
    end if;
    if _heir_of is not null then
        _bytes := coalesce(_bytes, 0) + app.inherited_bytes(_heir_of, false);
    end if;
    if _bytes > 0 then
        update app.lanes l set task_bytes = _bytes where l.id = _lane;
    end if;
    return case when _width = 0 then app.make_right(_lane, _session) end;
end;
$$;
