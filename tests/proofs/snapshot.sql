-- Everything that the model of the state machine speaks of, as one document; times are seconds since %(zero)s.
select jsonb_build_object(
    'lanes', (select coalesce(jsonb_agg(jsonb_build_object('id', l.id, 'job', j.job_id, 'node', l.node,
                 'purpose', l.purpose, 'generation', l.generation, 'superseded', l.superseded,
                 'held_by_none', l.held is not null and not l.closed and not exists (
                     select from app.limits m where m.kind || ' ' || m.name = l.held), 'width', l.width, 'next_index', l.next_index, 'running', l.running,
                 'remaining', l.remaining, 'failed', l.failed, 'closed', l.closed, 'ripe', l.ripe,
                 'due_at', extract(epoch from l.due_at - %(zero)s::timestamptz)::integer) order by l.id), '[]')
                from app.lanes l join app.jobs j on j.id = l.job),
    'tasks', (select coalesce(jsonb_agg(to_jsonb(t)), '[]') from (
                 select lane, idx, 'running' as place, attempt, session, failures, crashes, null::integer as due_at,
                        null::jsonb as body
                   from app.claims
                 union all
                 select lane, idx, 'due', attempt, null, failures, crashes,
                        extract(epoch from due_at - %(zero)s::timestamptz)::integer, null from app.due
                 union all
                 select lane, idx, 'child', attempt, null, failures, crashes, null, null from app.children
                 union all
                 select lane, idx, outcome::text, attempt, session, failures, crashes, null, coalesce(result, error)
                   from app.outcomes) t),
    'rights', (select coalesce(jsonb_agg(jsonb_build_object('id', r.id, 'job', j.job_id, 'node', r.node,
                  'purpose', r.purpose, 'generation', r.generation, 'session', r.session, 'takes', r.takes,
                  'taken_until', extract(epoch from r.taken_until - %(zero)s::timestamptz)::integer)), '[]')
                 from app.rights r join app.jobs j on j.id = r.job),
    'jobs', (select coalesce(jsonb_object_agg(j.job_id, jsonb_build_object(
                'state', j.state, 'version', j.last_event, 'generation', j.generation,
                'waits', (select coalesce(jsonb_object_agg(
                             w.node, extract(epoch from w.until - %(zero)s::timestamptz)::integer), '{}')
                            from app.waits w where w.job = j.id),
                'ended_at', (select extract(epoch from k.ended_at - %(zero)s::timestamptz)::integer
                               from app.children k where k.job = j.id),
                'nodes', (select jsonb_object_agg(n.name, n.state) from app.nodes n where n.job = j.id),
                'events', (select jsonb_agg(jsonb_build_array(e.seq, e.kind, e.node, e.data -> 'nodes') order by e.seq)
                             from app.events e where e.job = j.id))), '{}')
               from app.jobs j),
    'dead', (select coalesce(jsonb_agg(id order by id), '[]') from app.sessions where dead_at is not null),
    'stuck', (select coalesce(jsonb_agg(job_id), '[]') from app.stuck_jobs));
