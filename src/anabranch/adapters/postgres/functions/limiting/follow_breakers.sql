-- Let breakers know how attempts ended, a batch of them. Those count that blame what is outside: transient and throttled
-- failures, and timeouts of one attempt; not a worker that died, nor a task that took too long over all its attempts. So many
-- of them within its window open a breaker, for its time; then its probe opens it again or, once it completes, closes it; a
-- probe that ended otherwise says nothing, and there is another. The caller holds the lanes; breakers come after them, in order.
create function app.follow_breakers(_endings app.ending[], _closed bigint[]) returns void language plpgsql as $$
declare
    _said record;
    _breaker app.breakers;
    _failed timestamptz[];
begin
    if not exists (select from app.breakers) then
        return;
    end if;
    for _said in
        select b.kind, b.name, (count(*) filter (where e.blames))::integer as faults,
               coalesce(bool_or(e.claimed_at >= b.probe_at), false) as probed,
               coalesce(bool_or(e.claimed_at >= b.probe_at and e.blames), false) as failed,
               coalesce(bool_or(e.claimed_at >= b.probe_at and e.ended in ('completed', 'referenced')), false) as completed,
               (array_agg(e.body) filter (where e.blames))[1] as error
          from (select x.lane, x.ended, x.body, x.claimed_at,
                       x.lane <> all(_closed) and x.ended in ('failed', 'retry', 'timed_out')
                       and x.body ->> 'category' in ('transient', 'throttled')
                       and x.body ->> 'code' not in ('worker.died', 'task.total_timeout') as blames
                  from unnest(_endings) x) e
         cross join lateral (select x.queue, x.handler from app.lanes x where x.id = e.lane and x.purpose = 'work' limit 1) l
          join app.breakers b on (b.kind, b.name) in (('queue', l.queue), ('handler', l.handler))
         group by b.kind, b.name
        having bool_or(e.blames) or bool_or(e.claimed_at >= b.probe_at)
         order by b.kind, b.name
    loop
        select b.* into _breaker from app.breakers b where b.kind = _said.kind and b.name = _said.name for no key update;
        continue when not found;
        if not _breaker.is_open and _said.faults > 0 then
            _failed := _breaker.failed_at || array_fill(app.now(), array[_said.faults]);
            _failed := _failed[greatest(cardinality(_failed) - _breaker.failures + 1, 1):];
            if cardinality(_failed) = _breaker.failures and _failed[1] >= app.now() - _breaker.window_for then
                update app.breakers b
                   set is_open = true, opened_at = app.now(), closed_at = null, open_until = app.now() + b.open_for,
                       probe_at = null, failed_at = '{}', error = _said.error
                 where b.kind = _said.kind and b.name = _said.name;
                perform app.hold_broken(_said.kind, _said.name);
            else
                update app.breakers b set failed_at = _failed where b.kind = _said.kind and b.name = _said.name;
            end if;
        elsif _breaker.is_open and _breaker.probe_at is not null and _said.probed then
            update app.breakers b
               set is_open = _said.failed or not _said.completed, probe_at = null,
                   open_until = case when _said.failed then app.now() + b.open_for else b.open_until end,
                   closed_at = case when _said.completed and not _said.failed then app.now() end,
                   error = coalesce(_said.error, b.error)
             where b.kind = _said.kind and b.name = _said.name;
            if _said.completed and not _said.failed then
                perform app.free_broken(_said.kind, _said.name, 1000);
            end if;
        end if;
    end loop;
end;
$$;
