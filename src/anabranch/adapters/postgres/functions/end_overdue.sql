-- End attempts that run past their time by the database's clock (E8, E18): past the task's total, for good; past the
-- running time and a grace that its worker let pass, to be tried again while attempts are left. A timeout is a
-- transient failure: without a number of its own, a node allows three attempts. Answers how many.
create function app.end_overdue(_grace interval, _batch integer) returns integer language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    with timed as (
        select c.*, l.policy, (l.policy ->> 'total_timeout_seconds')::float as total,
               (l.policy ->> 'timeout_seconds')::float as running,
               coalesce((l.policy ->> 'max_attempts')::integer, 3) as max_attempts
          from app.claims c join app.lanes l on l.id = c.lane),
    overdue as (
        select t.*, t.first_at + make_interval(secs => t.total) < app.now() as spent from timed t
         where t.first_at + make_interval(secs => t.total) < app.now()
            or t.started_at + make_interval(secs => t.running) + _grace < app.now()
         limit _batch)
    select app.release(coalesce(jsonb_agg(jsonb_build_object(
               'session', o.session, 'lane', o.lane, 'idx', o.idx, 'attempt', o.attempt,
               'ended', case when o.spent or o.failures + 1 >= o.max_attempts then 'failed' else 'timed_out' end,
               'delay', app.retry_delay(o.policy, o.failures),
               'body', case when o.spent then app.total_timeout(o.total) else jsonb_build_object(
                   'category', 'transient', 'code', 'task.timed_out',
                   'message', format('it ran longer than %s s', o.running)) end)), '[]'))
      from overdue o;
$$;
