-- Whether this session may perform a duty of which one process at a time is in charge: no other live session did within _every.
create function app.has_turn(_name text, _session bigint, _every interval) returns boolean language sql stable as $$
    select not exists (
        select from app.duties d join app.sessions s on s.id = d.session and s.dead_at is null
         where d.name = _name and d.session <> _session and d.ticked_at + _every > app.now());
$$;
