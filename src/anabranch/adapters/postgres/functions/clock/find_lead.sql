-- How far the newest recorded time of running work is ahead of the server's clock, because the clock was set back unnoticed.
-- Null if no time is recorded.
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
