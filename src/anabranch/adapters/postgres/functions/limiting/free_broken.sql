-- Let lanes be claimed again that a breaker held back, at most so many, of these queues where they are given. Locked lanes are
-- skipped: the sweeper comes to them.
create function app.free_broken(_kind text, _name text, _limit integer, _queues text[] default null) returns void
language plpgsql as $$
begin
    perform app.let_go(l.id, l.opened_at, coalesce(l.closed_at, app.now()))
       from (select x.id, b.opened_at, b.closed_at
               from app.breakers b join app.lanes x on x.held = 'breaker ' || b.kind || ' ' || b.name
              where b.kind = _kind and b.name = _name and not x.closed and (_queues is null or x.queue = any(_queues))
                and (_queues is null or (x.next_index < x.width or x.due_at <= app.now())
                                        and (x.max_running is null or x.running < x.max_running))
              order by x.priority, x.owner, x.place, x.root, x.id limit _limit for update of x skip locked) l;
end;
$$;
