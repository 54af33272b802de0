-- As app.take_ended_children, for processes of the release before, which know no token.
create function app.take_children(_session bigint, _limit integer)
returns table (
    child bigint, job_id text, state app.job_state, result jsonb, error jsonb, lane bigint, idx integer, attempt integer,
    failures smallint, policy jsonb, parent_id text, node text
) language sql as $$
    select t.child, t.job_id, t.state, t.result, t.error, t.lane, t.idx, t.attempt, t.failures, t.policy, t.parent_id, t.node
      from app.take_ended_children(_session, _limit) t;
$$;
