-- Every task with its state: waiting in its lane, running (as a child job, too), due again, or ended. Internal tasks are
-- not among them, nor what a retry left behind.
create view app.tasks as
    select j.job_id, j.job_id || '-' || l.node || '-' || coalesce(i.key, t.idx::text) as task_id, l.node,
           l.generation, t.idx as position, coalesce(i.key, t.idx::text) as index,
           case when l.closed and t.state in ('ready', 'due') then 'cancelled' else t.state end as state,
           coalesce(i.handler, l.handler) as handler, 
           case when l.with_parameters then j.parameters else '{}' end
               || case when l.policy ? 'heir_of'
                       then coalesce(app.handed_to((l.policy ->> 'heir_of')::bigint, coalesce(i.key, t.idx::text)), '{}')
                       else '{}' end
               || coalesce(i.parameters, '{}')
               || case when l.policy ? 'indexed' then jsonb_build_object('index', coalesce(to_jsonb(i.key), to_jsonb(t.idx)))
                       else '{}' end as parameters,
           t.attempt, t.failures, t.crashes, t.session, t.claimed_at, t.started_at, t.finished_at, t.due_at,
           t.result, t.error, l.id as lane, j.id as job
      from (select lane, idx, outcome::text as state, attempt, failures, crashes, session, claimed_at, started_at,
                   finished_at, null::timestamptz as due_at,
                   case when reference is null then result
                        else jsonb_build_object('anabranch:reference', reference) end as result, error
              from app.outcomes
            union all
            select lane, idx, 'running', attempt, failures, crashes, session, claimed_at, started_at,
                   null, null, null, null
              from app.claims
            union all
            select lane, idx, 'running', attempt, failures, crashes, null, claimed_at, claimed_at,
                   null, null, null, null
              from app.children
            union all
            select lane, idx, 'due', attempt, failures, crashes, null, null, null, null, due_at, null, null
              from app.due
            union all
            select w.id, g.idx, 'ready', 0, 0, 0, null, null, null,
                   null, null, null, null
              from app.lanes w cross join lateral generate_series(w.next_index, w.width - 1) as g(idx)) t
      join app.lanes l on l.id = t.lane and l.purpose = 'work' and not l.superseded
      join app.jobs j on j.id = l.job
      left join app.items i on i.lane = t.lane and i.idx = t.idx;
