-- Lock the next lane to serve: that of the owner whose turn it is, in the order of places (app.next_place), and in a round in
-- the order of root jobs. Those that were passed over are left out. Null: none is free.
create function app.lock_lane(_turns app.turns[], _wait boolean, _passed bigint[] default '{}') returns app.lanes
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
         order by l.place, l.root, l.id limit 1 for update skip locked;
        if found then
            return _lane;
        end if;
    end loop;
    if _wait and _first.queue is not null then
        select l.* into _lane from app.lanes l
         where l.queue = _first.queue and l.priority = _first.priority and l.owner = _first.owner and l.claimable
           and l.id <> all(_passed)
         order by l.place, l.root, l.id limit 1 for update;
    end if;
    return _lane;
end;
$$;
