-- What every task of a lane has in common, as the worker needs it, under the lane's id.
create function app.lane_facts(_lane app.lanes) returns jsonb language plpgsql stable as $$
begin
    return (
        select jsonb_build_object(_lane.id, jsonb_build_object(
                   'job_id', j.job_id, 'workflow', j.workflow, 'workflow_hash', j.workflow_hash,
                   'correlation_id', j.correlation_id, 'node', _lane.node, 'purpose', _lane.purpose,
                   'generation', _lane.generation, 'handler', _lane.handler, 'policy', _lane.policy,
                   'parameters', case when _lane.with_parameters then j.parameters else '{}' end))
          from app.jobs j where j.id = _lane.job);
end;
$$;
