-- How many more tasks of a lane may run: by its limits (app.find_limit_room), and by the breakers of its queue and handler;
-- null: nothing says. A breaker that is open leaves no room; once its time is over it leaves room for one task, the probe, to
-- whoever asks first, and again when nothing was heard of that one for as long. A breaker that another claim is at leaves
-- none now, so that nobody waits for it. A lane without room is held back, and with it others of its queue. The caller holds
-- the lane, and takes the room.
create function app.find_room(_lane app.lanes) returns integer language plpgsql as $$
declare
    _room integer := app.find_limit_room(_lane);
    _wanted integer;
    _locked integer := 0;
    _breaker app.breakers;
begin
    if _room = 0 then
        return 0;
    end if;
    select count(*) into _wanted from app.breakers b
     where b.is_open and (b.kind, b.name) in (('queue', _lane.queue), ('handler', _lane.handler));
    if _wanted = 0 then
        return _room;
    end if;
    for _breaker in
        select b.* from app.breakers b
         where b.is_open and (b.kind, b.name) in (('queue', _lane.queue), ('handler', _lane.handler))
         order by b.kind, b.name for no key update skip locked
    loop
        _locked := _locked + 1;
        if _breaker.open_until > app.now() or _breaker.probe_at + _breaker.open_for > app.now() then
            perform app.hold_broken(_breaker.kind, _breaker.name, _lane.queue);
            return 0;
        end if;
    end loop;
    if _locked < _wanted then
        return 0;
    end if;
    update app.breakers b set probe_at = app.now()
     where b.is_open and (b.kind, b.name) in (('queue', _lane.queue), ('handler', _lane.handler));
    return 1;
end;
$$;
