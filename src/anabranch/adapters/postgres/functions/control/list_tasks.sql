-- The tasks of a job in order, at most so many after a cursor; of one node or in one state, where these are given. It
-- walks the job's lanes, and in each what ended, runs, is due and waits, each by its key from the cursor on, so that a page
-- costs the same wherever it begins and however many tasks there are. Internal tasks are not among them, nor what a retry
-- left behind. It is for those who may read the tables, and in line, so that the planner knows what is asked for.
-- The parameters of a lane with values are filled in elsewhere: here they are what differs from task to task.
create function app.list_tasks(_job bigint, _lane bigint, _position integer, _node text, _state text, _limit integer)
returns table (
    job_id text, task_id text, node text, generation integer, place integer, index text, state text, handler text,
    parameters jsonb, attempt integer, failures integer, crashes integer, session bigint, claimed_at timestamptz,
    started_at timestamptz, finished_at timestamptz, due_at timestamptz, result jsonb, error jsonb, lane bigint, job bigint,
    item jsonb, progress jsonb)
language sql stable security invoker as $$
    select j.job_id, j.job_id || '-' || l.node || '-' || coalesce(i.key, t.idx::text), l.node, l.generation, t.idx,
           coalesce(i.key, t.idx::text), t.state, coalesce(i.handler, l.handler),
           case when l.with_parameters and l.values is null then j.parameters else '{}' end
               || case when l.policy ? 'heir_of'
                       then coalesce(app.handed_to((l.policy ->> 'heir_of')::bigint, coalesce(i.key, t.idx::text)), '{}')
                       else '{}' end
               || coalesce(i.parameters, '{}')
               || case when l.policy ? 'indexed' then jsonb_build_object('index', coalesce(to_jsonb(i.key), to_jsonb(t.idx)))
                       else '{}' end,
           t.attempt, t.failures::integer, t.crashes::integer, t.session, t.claimed_at, t.started_at, t.finished_at,
           t.due_at, t.result, t.error, l.id, j.id, i.parameters, t.progress
      from app.jobs j
      join app.lanes l on l.job = j.id and l.purpose = 'work' and not l.superseded and l.id >= _lane
                      and (_node is null or l.node = _node)
     cross join lateral (select case when l.id = _lane then _position else -1 end as idx,
                                case when l.closed then 'cancelled' else 'ready' end as ready,
                                case when l.closed then 'cancelled' else 'due' end as due) past
     cross join lateral (
           (select o.idx, o.outcome::text as state, o.attempt, o.failures, o.crashes, o.session, o.claimed_at, o.started_at,
                   o.finished_at, null::timestamptz as due_at,
                   case when o.reference is null then o.result
                        else jsonb_build_object('anabranch:reference', o.reference) end as result, o.error,
                   null::jsonb as progress
              from app.outcomes o
             where o.lane = l.id and o.idx > past.idx and o.outcome <> 'failed'
               and coalesce(_state, 'completed') in ('completed', 'cancelled')
               and (_state is distinct from 'completed' or o.outcome <> 'cancelled')
               and (_state is distinct from 'cancelled' or o.outcome = 'cancelled')
             order by o.idx limit _limit)
           union all
           (select o.idx, 'failed', o.attempt, o.failures, o.crashes, o.session, o.claimed_at, o.started_at, o.finished_at,
                   null, null, o.error, null
              from app.outcomes o
             where o.lane = l.id and o.idx > past.idx and o.outcome = 'failed' and coalesce(_state, 'failed') = 'failed'
             order by o.idx limit _limit)
           union all
           (select c.idx, 'running', c.attempt, c.failures, c.crashes, c.session, c.claimed_at, c.started_at, null, null,
                   null, null, c.progress || jsonb_build_object('at', c.progress_at)
              from app.claims c
             where c.lane = l.id and c.idx > past.idx and coalesce(_state, 'running') = 'running'
             order by c.idx limit _limit)
           union all
           (select c.idx, 'running', c.attempt, c.failures, c.crashes, null, c.claimed_at, c.claimed_at, null, null, null,
                   null, null
              from app.children c
             where c.lane = l.id and c.idx > past.idx and coalesce(_state, 'running') = 'running'
             order by c.idx limit _limit)
           union all
           (select d.idx, past.due, d.attempt, d.failures, d.crashes, null, null, null, null, d.due_at, null, null, null
              from app.due d
             where d.lane = l.id and d.idx > past.idx and coalesce(_state, past.due) = past.due
             order by d.idx limit _limit)
           union all
           (select g.idx, past.ready, 0, 0, 0, null, null, null, null, null, null, null, null
              from (select greatest(l.next_index, past.idx + 1) as idx) first
             cross join lateral generate_series(first.idx, least(l.width::bigint - 1, first.idx::bigint + _limit)::integer)
                        as g(idx)
             where coalesce(_state, past.ready) = past.ready)
           order by idx limit _limit) t
      left join lateral (select x.* from app.items x where x.lane = l.id and x.idx = t.idx limit 1) i on true
     where j.id = _job
     order by l.id, t.idx limit _limit;
$$;
