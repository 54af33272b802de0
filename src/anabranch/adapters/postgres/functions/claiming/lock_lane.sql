-- Lock the next lane to serve: that of the owner whose turn it is, in the order of places (app.next_place), and in a round in
-- the order of root jobs. Those that were passed over are left out, and those that need a handler in a version that is not among
-- _offers (app.list_offers). Null: none is free.
create function app.lock_lane(_turns app.turns[], _wait boolean, _passed bigint[] default '{}', _offers text[] default '{}')
returns app.lanes
language plpgsql as $$
declare
    _first app.turns;
    _turn app.turns;
    _lane app.lanes;
begin
    for _turn in select t.* from unnest(_turns) t order by t.priority, t.number loop
        _first := coalesce(_first, _turn);
        select l.* into _lane from app.lanes l
         where l.queue = _turn.queue and l.priority = _turn.priority and l.owner = _turn.owner and l.claimable
           and l.id <> all(_passed)
           and (l.handler_version is null or l.handler || '@' || l.handler_version = any(_offers))
         order by l.place, l.root, l.id limit 1 for update skip locked;
        if found then
            return _lane;
        end if;
    end loop;
    if _wait and _first.queue is not null then
        select l.* into _lane from app.lanes l
         where l.queue = _first.queue and l.priority = _first.priority and l.owner = _first.owner and l.claimable
           and l.id <> all(_passed)
           and (l.handler_version is null or l.handler || '@' || l.handler_version = any(_offers))
         order by l.place, l.root, l.id limit 1 for update;
    end if;
    return _lane;
end;
$$;
