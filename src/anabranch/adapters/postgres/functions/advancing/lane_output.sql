-- The output of a node with many tasks: how many completed and failed, and the results in order, each {"value"} or, if it is
-- in object storage, {"reference"}, so that a result can't be confused with a reference (G7). Results that are longer than
-- _most characters together are left out; the output says where they are.
create function app.lane_output(_lane bigint, _most bigint) returns jsonb language plpgsql stable as $$
declare
    _output jsonb;
    _size bigint := 0;
    _task record;
begin
    select jsonb_build_object('count', l.width - l.remaining - l.failed, 'failed', l.failed) into _output
      from app.lanes l where l.id = _lane;
    for _task in
        select length(o.result::text) as size from app.outcomes o where o.lane = _lane and o.result is not null
    loop
        _size := _size + _task.size;
        if _size > _most then
            return _output || '{"items_omitted": "the results are too large to be one value; read them from the tasks"}';
        end if;
    end loop;
    return _output || jsonb_build_object('items', (
        select coalesce(jsonb_agg(case when o.reference is null then jsonb_build_object('value', o.result)
                                       else jsonb_build_object('reference', o.reference) end order by o.idx), '[]')
          from app.outcomes o where o.lane = _lane and o.outcome = 'completed'));
end;
$$;
