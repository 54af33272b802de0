-- Since when a duty has been performed without a break, with its row locked. Null: another process performs it now. A break
-- is half a lease without a tick, in which a live session would have sent a heartbeat; so a slow duty is not treated as
-- interrupted.
create function app.watch(_name text, _session bigint, _every interval) returns timestamptz language plpgsql as $$
declare
    _since timestamptz;
    _longest interval := greatest(3 * _every, (select min(s.lease) / 2 from app.sessions s where s.dead_at is null));
begin
    insert into app.duties (name, session, every, unbroken_since, ticked_at)
    values (_name, _session, _every, app.now(), app.now()) on conflict do nothing;
    perform from app.duties where name = _name for update skip locked;
    if not found then
        return null;
    end if;
    update app.duties
       set unbroken_since = app.now()
     where name = _name and (ticked_at + _longest < app.now() or unbroken_since > app.now());
    select d.unbroken_since into _since from app.duties d where d.name = _name;
    return _since;
end;
$$;
