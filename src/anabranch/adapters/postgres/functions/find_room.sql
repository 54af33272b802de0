-- How many more tasks of a lane may run by the limits of its queue, workflow, handler and key; null: no limit says. They
-- are read and counted with the table of limits locked to the commit, so that no two claims count the same room and none
-- goes by a limit that has changed: one lock, because limits that come while a claim runs would be locked out of order.
-- A lane without room is held back until there is some, and with it others of its queue for which the same limit has
-- none: very many that wait for one limit are passed in a few steps (E13). The caller holds the lane.
create function app.find_room(_lane app.lanes) returns integer language plpgsql as $$
declare
    _workflow text := (select j.workflow from app.jobs j where j.id = _lane.job);
    _limit app.limits;
    _left integer;
    _room integer;
begin
    perform from app.limits m
      where (m.kind, m.name) in (('queue', _lane.queue), ('workflow', _workflow), ('handler', _lane.handler),
                                 ('key', _lane.limit_key));
    if not found then
        return null;
    end if;
    lock table app.limits in share row exclusive mode;
    for _limit in
        select m.* from app.limits m
         where (m.kind, m.name) in (('queue', _lane.queue), ('workflow', _workflow), ('handler', _lane.handler),
                                    ('key', _lane.limit_key))
         order by m.paused desc, m.kind
    loop
        _left := case when _limit.paused then 0
                      else greatest(_limit.most - app.count_running(_limit.kind, _limit.name), 0) end;
        if _left = 0 then
            update app.lanes l set held = _limit.kind || ' ' || _limit.name
             where l.id = any(_lane.id || array(
                select x.id from app.lanes x
                 where x.queue = _lane.queue and x.claimable
                   and _limit.name = case _limit.kind when 'queue' then x.queue when 'handler' then x.handler
                       when 'key' then x.limit_key else (select j.workflow from app.jobs j where j.id = x.job) end
                 order by x.priority, x.served_at, x.id limit 1000 for update skip locked));
            return 0;
        end if;
        _room := least(_room, _left);
    end loop;
    return _room;
end;
$$;
