-- How far ahead of the server's clock the latest time is that was noted of what goes on: it was ahead itself then, and
-- nobody saw it step back. Null where nothing is noted.
create function app.find_lead() returns interval language sql stable as $$
    select greatest(
               (select max(s.beat_at) from app.sessions s where s.dead_at is null),
               (select max(c.claimed_at) from app.claims c),
               (select max(r.made_at) from app.rights r),
               (select max(greatest(l.opened_at, l.served_at)) from app.lanes l where not l.closed),
               (select max(n.opened_at) from app.waits w join app.nodes n on n.job = w.job and n.name = w.node
                 where w.until is not null),
               (select max(a.finished_at) from app.due d
                  join app.attempts a on a.lane = d.lane and a.idx = d.idx and a.attempt = d.attempt
                 where d.due_at > app.now())) - app.now();
$$;
