-- How many more tasks of a lane may run by the limits of its queue, workflow, handler and key; null: no limit says. They
-- are counted under the lock of every limit, taken in one order and held to the commit, so that no two claims count the
-- same room. A lane without room is held back until there is some. The caller holds the lane.
create function app.find_room(_lane app.lanes) returns integer language plpgsql as $$
declare
    _limit app.limits;
    _left integer;
    _room integer;
begin
    for _limit in
        select m.* from app.limits m
         where m.name = any(array[_lane.queue, _lane.handler, _lane.limit_key,
                                  (select j.workflow from app.jobs j where j.id = _lane.job)])
           and m.name = case m.kind when 'queue' then _lane.queue when 'handler' then _lane.handler
                                    when 'key' then _lane.limit_key
                                    else (select j.workflow from app.jobs j where j.id = _lane.job) end
         order by m.paused desc, m.kind
    loop
        if not _limit.paused then
            perform from app.limits m where m.most is not null order by m.kind, m.name for update;
        end if;
        _left := case when _limit.paused then 0
                      else greatest(_limit.most - app.count_running(_limit.kind, _limit.name), 0) end;
        if _left = 0 then
            update app.lanes l set held = _limit.kind || ' ' || _limit.name where l.id = _lane.id;
            return 0;
        end if;
        _room := least(_room, _left);
    end loop;
    return _room;
end;
$$;
