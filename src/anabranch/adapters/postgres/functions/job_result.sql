-- The outputs of a job's last nodes by name: an aggregate where the node has one, else its tasks' results in order.
create function app.job_result(_job bigint, _nodes jsonb) returns jsonb language sql stable as $$
    select jsonb_object_agg(l.node, case l.purpose
        when 'aggregate' then (select app.result_of(o) from app.outcomes o where o.lane = l.id)
        else (select jsonb_build_object('count', count(*), 'items', coalesce(jsonb_agg(app.result_of(o) order by o.idx), '[]'))
                from app.outcomes o where o.lane = l.id and o.outcome = 'completed') end)
      from (select distinct on (node) * from app.lanes
             where job = _job and purpose in ('work', 'aggregate') and node in (select jsonb_array_elements_text(_nodes))
             order by node, generation desc, purpose desc) l;
$$;
