-- What every task of a lane has in common, as the worker needs it.
create function app.lane_facts(_lane bigint) returns jsonb language sql stable as $$
    select jsonb_build_object(
        'job_id', j.job_id, 'workflow', j.workflow, 'workflow_hash', j.workflow_hash,
        'correlation_id', j.correlation_id, 'node', l.node, 'purpose', l.purpose, 'generation', l.generation,
        'parameters', case when l.with_parameters then j.parameters else '{}' end, 'policy', l.policy)
      from app.lanes l join app.jobs j on j.id = l.job where l.id = _lane;
$$;
