-- Let lanes be claimed again that a breaker held back, at most so many: all, if it is closed; else those that have something to
-- claim, of these queues, or without queues those whose tasks may wait only so long. Locked lanes are skipped: the sweeper
-- comes to them.
create function app.free_broken(_kind text, _name text, _limit integer, _queues text[] default null) returns void
language plpgsql as $$
begin
    perform app.let_go(l.id, l.opened_at, coalesce(l.closed_at, app.now()))
       from (select x.id, b.opened_at, b.closed_at
               from app.breakers b join app.lanes x on x.held = 'breaker ' || b.kind || ' ' || b.name
              where b.kind = _kind and b.name = _name and not x.closed
                and (b.closed_at is not null
                     or (x.next_index < x.width or x.due_at <= app.now())
                        and (x.max_running is null or x.running < x.max_running)
                        and case when _queues is null
                                 then x.queue_timeout is not null or x.policy ->> 'total_timeout_seconds' is not null
                                 else x.queue = any(_queues) end)
              order by x.priority, x.owner, x.place, x.root, x.id limit _limit for update of x skip locked) l;
end;
$$;
