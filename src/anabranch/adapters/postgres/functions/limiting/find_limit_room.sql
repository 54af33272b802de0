-- How many more tasks of a lane may run by the limits of its queue, workflow, handler and key; null: no limit says. They
-- are read and counted with their rows locked to the commit, so that no two claims count the same room and none goes by a
-- limit that has changed; claims of other limits go on. A claim waits for such rows only while it holds none: it takes
-- them in one order then, and later ones without waiting, so that no two claims wait for each other. Where it can't have
-- them the lane has no room for now.
-- A lane without room is held back until there is some, and with it others of its queue for which the same limit has
-- none: very many that wait for one limit are passed in a few steps (E13). The caller holds the lane.
create function app.find_limit_room(_lane app.lanes) returns integer language plpgsql as $$
declare
    _workflow text := (select j.workflow from app.jobs j where j.id = _lane.job);
    _wanted text[];
    _locked integer;
    _limit app.limits;
    _left integer;
    _room integer;
begin
    select array_agg(m.kind || ' ' || m.name) into _wanted from app.limits m
      where (m.kind, m.name) in (('queue', _lane.queue), ('workflow', _workflow), ('handler', _lane.handler),
                                 ('key', _lane.limit_key));
    if _wanted is null then
        return null;
    end if;
    if current_setting('anabranch.holds_limits', true) = 'yes' then
        perform from app.limits m where m.kind || ' ' || m.name = any(_wanted)
          order by m.kind, m.name for no key update skip locked;
        get diagnostics _locked = row_count;
        if _locked < cardinality(_wanted) then
            return 0;
        end if;
    else
        perform from app.limits m where m.kind || ' ' || m.name = any(_wanted) order by m.kind, m.name for no key update;
        perform set_config('anabranch.holds_limits', 'yes', true);
    end if;
    for _limit in
        select m.* from app.limits m where m.kind || ' ' || m.name = any(_wanted) order by m.paused desc, m.kind
    loop
        _left := case when _limit.paused then 0
                      else greatest(_limit.most - app.fold_running(_limit.kind, _limit.name)
                                    + case _limit.kind when 'key' then app.count_ancestors(_lane.job, _limit.name) else 0 end,
                                    0) end;
        if _left = 0 then
            update app.lanes l set held = _limit.kind || ' ' || _limit.name
             where l.id = any(_lane.id || array(
                select x.id from app.lanes x
                 where x.queue = _lane.queue and x.claimable
                   and _limit.name = case _limit.kind when 'queue' then x.queue when 'handler' then x.handler
                       when 'key' then x.limit_key else (select j.workflow from app.jobs j where j.id = x.job) end
                   and (_limit.kind <> 'key' or _limit.paused or app.count_ancestors(x.job, _limit.name) = 0)
                 order by x.priority, x.owner, x.place, x.root, x.id limit 1000 for update skip locked));
            return 0;
        end if;
        _room := least(_room, _left);
    end loop;
    return _room;
end;
$$;
