-- The output of a node with many tasks: how many completed and how many failed, and the results of the first in order.
-- Results that are larger than _most bytes together are left out, and where to find them is said instead.
create function app.lane_output(_lane bigint, _most bigint) returns jsonb language plpgsql stable as $$
declare
    _output jsonb;
    _size bigint;
begin
    select jsonb_build_object('count', count(*) filter (where o.outcome = 'completed'),
                              'failed', count(*) filter (where o.outcome = 'failed')),
           coalesce(sum(pg_column_size(o.result)), 0)
      into _output, _size from app.outcomes o where o.lane = _lane;
    return _output || case when _size > _most then
        jsonb_build_object('items_omitted', format('the results have %s bytes; read them from the tasks', _size))
    else jsonb_build_object('items', (
        select coalesce(jsonb_agg(app.result_of(o) order by o.idx), '[]')
          from app.outcomes o where o.lane = _lane and o.outcome = 'completed')) end;
end;
$$;
