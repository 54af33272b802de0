-- Let lanes of these queues be claimed again that a limit held back and for which there is room now, the most urgent
-- first; those that have nothing to claim, or that others serve, take nobody's turn (E13). What runs for a task
-- that holds a place of a key shares it, as in app.find_room.
create function app.free_held(_queues text[]) returns void language plpgsql as $$
declare
    _limit app.limits;
    _room integer;
begin
    for _limit in
        select m.* from app.limits m
         where not m.paused
           and exists (select from app.lanes l where l.held = m.kind || ' ' || m.name and not l.closed)
    loop
        _room := _limit.most - (app.read_running(_limit.kind, _limit.name)).running;
        if _room > 0 or _limit.kind = 'key' then
            update app.lanes l set held = null, freed_at = app.now()
             where l.id = any(array(
                select x.id from app.lanes x
                 where x.held = _limit.kind || ' ' || _limit.name and not x.closed and x.queue = any(_queues)
                   and (x.next_index < x.width or x.due_at <= app.now())
                   and (x.max_running is null or x.running < x.max_running)
                   and (_room > 0 or _room + app.count_ancestors(x.job, _limit.name) > 0)
                 order by x.priority, x.served_at, x.id limit case when _room > 0 then least(_room, 100) else 100 end
                   for update skip locked));
        end if;
    end loop;
end;
$$;
