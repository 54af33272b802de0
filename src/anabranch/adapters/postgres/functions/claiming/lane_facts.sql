-- What all tasks of a lane have in common, as the worker needs it, by the lane's id.
create function app.lane_facts(_lanes bigint[]) returns jsonb language plpgsql stable as $$
begin
    return (
        select jsonb_object_agg(l.id, jsonb_build_object(
                   'job_id', j.job_id, 'workflow', j.workflow, 'workflow_hash', j.workflow_hash,
                   'correlation_id', j.correlation_id, 'platform', j.platform, 'node', l.node, 'purpose', l.purpose,
                   'generation', l.generation, 'tried', l.tried, 'handler', l.handler, 'policy', l.policy, 'values', l.values,
                   'tick', j.tick, 'traceparent', (select t.traceparent from app.job_traces t where t.job = j.id),
                   'parameters', case when l.with_parameters then j.parameters else '{}' end))
          from app.lanes l join app.jobs j on j.id = l.job where l.id = any(_lanes));
end;
$$;
