-- What the holder of a right needs to plan: the job, the states of its nodes, the branches that were taken, and how the
-- lane ended or what the gate received.
-- Version is the job's last event: apply refuses a plan that was made from an older one.
create function app.load_right(_right bigint, _session bigint, _takes integer)
returns table (
    job_id text, correlation_id text, workflow_hash text, parameters jsonb, version integer, state app.job_state,
    node text, purpose app.lane_purpose, width integer, failed integer, error jsonb, states jsonb, taken jsonb,
    failure jsonb, signal jsonb, kept jsonb, is_child boolean, tick jsonb, ending text
) language plpgsql stable as $$
begin
    return query
    select j.job_id, j.correlation_id, j.workflow_hash, j.parameters, j.last_event, j.state, r.node, r.purpose, l.width, l.failed,
           (select o.error || jsonb_build_object('index', o.idx)
              from app.outcomes o
             where l.failed > 0 and o.lane = l.id and o.outcome = 'failed' order by o.idx limit 1),
           (select jsonb_object_agg(n.name, n.state) from app.nodes n where n.job = j.id),
           (select coalesce(jsonb_object_agg(n.name, n.output -> 'branch'), '{}')
              from app.nodes n where n.job = j.id and n.output ? 'branch'),
           (select n.error from app.nodes n
             where n.job = j.id and n.state = 'failed' order by n.finished_at, n.position limit 1),
           (select jsonb_build_array(s.payload) from app.signals s
             where r.purpose in ('gate', 'wait') and s.job = j.id and s.node = r.node and s.generation = r.generation),
           (select coalesce(jsonb_agg(n.name), '[]') from app.nodes n where n.job = j.id and n.kept),
           j.parent is not null, j.tick, j.ending ->> 'state'
      from app.rights r
      join app.jobs j on j.id = r.job
      left join app.lanes l on l.id = r.lane
     where r.id = _right and r.session = _session and r.takes = _takes;
end;
$$;
