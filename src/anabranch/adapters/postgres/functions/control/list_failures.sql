-- The tasks of a node that failed: their places, and why.
create function app.list_failures(_job_id text, _node text) returns table (place integer, error jsonb)
language sql stable as $$
    select o.idx, o.error
      from app.jobs j
      join app.lanes l on l.job = j.id and l.node = _node and l.purpose = 'work' and not l.superseded
      join app.outcomes o on o.lane = l.id and o.outcome <> 'completed'
     where j.job_id = _job_id
     order by o.idx;
$$;
