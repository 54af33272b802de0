-- The output of a node with many tasks: the results of those that completed, in order, and how many did and did not.
create function app.lane_output(_lane bigint) returns jsonb language plpgsql stable as $$
begin
    return (
        select jsonb_build_object(
                   'count', count(*) filter (where o.outcome = 'completed'),
                   'failed', count(*) filter (where o.outcome = 'failed'),
                   'items', coalesce(jsonb_agg(app.result_of(o) order by o.idx) filter (where o.outcome = 'completed'), '[]'))
          from app.outcomes o where o.lane = _lane);
end;
$$;
