-- Lock the next lane to serve: by priority, then served longest ago, over all queues asked for. Those
-- that were passed over are left out. Null: none is free.
create function app.lock_lane(_queues text[], _wait boolean, _passed bigint[] default '{}') returns app.lanes language plpgsql as $$
declare
    _queue text;
    _first text;
    _lane app.lanes;
begin
    for _queue in
        select q from unnest(_queues) q cross join lateral (
            select l.priority, l.served_at from app.lanes l
             where l.queue = q and l.claimable and l.id <> all(_passed) order by l.priority, l.served_at, l.id limit 1) head
         order by head.priority, head.served_at
    loop
        _first := coalesce(_first, _queue);
        select l.* into _lane from app.lanes l where l.queue = _queue and l.claimable and l.id <> all(_passed)
         order by l.priority, l.served_at, l.id limit 1 for update skip locked;
        if found then
            return _lane;
        end if;
    end loop;
    if _wait and _first is not null then
        select l.* into _lane from app.lanes l where l.queue = _first and l.claimable and l.id <> all(_passed)
         order by l.priority, l.served_at, l.id limit 1 for update;
    end if;
    return _lane;
end;
$$;
