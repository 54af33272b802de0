-- The results of a node's tasks in order, as planners and fan-ins get them.
create function app.node_results(_job_id text, _node text) returns jsonb language sql stable as $$
    select coalesce(jsonb_agg(jsonb_build_object(
               'task_id', _job_id || '-' || _node || '-' || coalesce(i.key, o.idx::text),
               'index', coalesce(i.key, o.idx::text), 'status', o.outcome, 'result', app.result_of(o)) order by o.idx), '[]')
      from (select l.id from app.lanes l join app.jobs j on j.id = l.job
             where j.job_id = _job_id and l.node = _node and l.purpose = 'work'
             order by l.generation desc limit 1) l
      join app.outcomes o on o.lane = l.id
      left join app.items i on i.lane = o.lane and i.idx = o.idx;
$$;
