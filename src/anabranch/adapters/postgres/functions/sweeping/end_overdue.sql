-- End attempts of these lanes that run past their time by the database's clock (E8, E18): past the task's total, for
-- good; past the running time and a grace that its worker let pass, to be tried again while attempts are left. Only time
-- since the sweeper's last break counts: a gap in which no sweeper ran may be a step of the clock that nobody saw, and an
-- attempt of a worker that died in it is released, not charged (E9). A timeout is a transient failure: without a number of
-- its own, a node allows three attempts. Lanes are found by their key, one for each claim, whatever the planner knows of a
-- table that fills and empties. Returns how many.
create function app.end_overdue(
    _grace interval, _batch integer, _from bigint default 0, _to bigint default 9223372036854775807
) returns integer language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    with overdue as (
        select c.*, l.*,
               c.first_at + app.seconds(l.total) < app.now() and w.since + app.seconds(l.total) < app.now() as spent
          from app.claims c
         cross join (select coalesce(max(d.unbroken_since), '-infinity') as since
                       from app.duties d where d.name = 'sweeper') w
         cross join lateral (
               select x.policy, (x.policy ->> 'total_timeout_seconds')::float as total,
                      (x.policy ->> 'timeout_seconds')::float as running,
                      coalesce((x.policy ->> 'max_attempts')::float, 3) as max_attempts
                 from app.lanes x where x.id = c.lane limit 1) l
         where c.lane between _from and _to
           and (c.first_at + app.seconds(l.total) < app.now() and w.since + app.seconds(l.total) < app.now()
                or c.started_at + app.seconds(l.running) + _grace < app.now()
                   and w.since + app.seconds(l.running) + _grace < app.now())
         limit _batch)
    select app.release(coalesce(jsonb_agg(jsonb_build_object(
               'session', o.session, 'lane', o.lane, 'idx', o.idx, 'attempt', o.attempt, 'token', o.token,
               'ended', case when o.spent or o.failures + 1 >= o.max_attempts then 'failed' else 'timed_out' end,
               'delay', app.retry_delay(o.policy, o.failures),
               'body', case when o.spent then app.total_timeout(o.total) else jsonb_build_object(
                   'category', 'transient', 'code', 'task.timed_out',
                   'message', format('it ran longer than %s s', o.running)) end)), '[]'))
      from overdue o;
$$;
