-- A page of the results of a node's tasks in order, after an index, as planners and fan-ins get them: JSON texts, one a
-- line, up to four million characters or one result. That of a fan-in is what it made, that of a gate its answer. No row:
-- there are no more.
create function app.node_results(_job_id text, _node text, _after integer)
returns table (lines text, count integer, last integer, has_references boolean) language plpgsql stable as $$
declare
    _lane bigint;
    _size bigint := 0;
    _task record;
begin
    select l.id into _lane from app.lanes l join app.jobs j on j.id = l.job
     where j.job_id = _job_id and l.node = _node and l.purpose in ('work', 'aggregate') and not l.superseded
     order by l.purpose, l.generation desc limit 1;
    if _lane is null and _after < 0 then
        return query
        select jsonb_build_object('task_id', _job_id || '-' || _node, 'index', 0, 'status', 'completed',
                                  'result', n.output)::text, 1, 0, false
          from app.nodes n join app.jobs j on j.id = n.job
         where j.job_id = _job_id and n.name = _node and n.state = 'completed' and n.output is not null;
        return;
    end if;
    for _task in
        select o.idx, length(o.result::text) as size from app.outcomes o
         where o.lane = _lane and o.idx > _after order by o.idx limit 5000
    loop
        _size := _size + coalesce(_task.size, 0);
        exit when _size > 4000000 and last is not null;
        last := _task.idx;
    end loop;
    if last is null then
        return;
    end if;
    return query
    select string_agg(jsonb_build_object(
               'task_id', _job_id || '-' || _node || '-' || coalesce(i.key, o.idx::text), 'index', case
                   when i.key ~ '^(0|[1-9][0-9]{0,8})$' then to_jsonb(i.key::integer)
                   else coalesce(to_jsonb(i.key), to_jsonb(o.idx)) end,
               'status', o.outcome, 'result', app.result_of(o))::text, E'\n' order by o.idx),
           count(*)::integer, node_results.last, bool_or(o.reference is not null)
      from app.outcomes o left join app.items i on i.lane = o.lane and i.idx = o.idx
     where o.lane = _lane and o.idx > _after and o.idx <= node_results.last;
end;
$$;
