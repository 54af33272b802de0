-- Let lanes of these queues be claimed again that a limit held back and for which there is room now, the most urgent
-- first, and of equally urgent owners each its part, those first that were served longest ago (E22); lanes that have nothing
-- to claim, or that others serve, take nobody's turn (E13). What runs for a task that holds a place of a key shares it, as
-- in app.find_room.
create function app.free_held(_queues text[]) returns void language plpgsql as $$
declare
    _limit app.limits;
    _room integer;
    _turn record;
    _freed integer;
begin
    for _limit in
        select m.* from app.limits m
         where not m.paused
           and exists (select from app.lanes l where l.held = m.kind || ' ' || m.name and not l.closed)
    loop
        _room := _limit.most - (app.read_running(_limit.kind, _limit.name)).running;
        continue when _room <= 0 and _limit.kind <> 'key';
        for _turn in
            with recursive waiting as (
                select head.* from unnest(_queues) q cross join lateral (
                    select l.held, l.queue, l.priority, l.owner from app.lanes l
                     where l.held = _limit.kind || ' ' || _limit.name and not l.closed and l.queue = q
                     order by l.priority, l.owner limit 1) head
                union all
                select next.* from waiting w cross join lateral (
                    select l.held, l.queue, l.priority, l.owner from app.lanes l
                     where l.held = w.held and not l.closed and l.queue = w.queue
                       and (l.priority, l.owner) > (w.priority, w.owner)
                     order by l.priority, l.owner limit 1) next)
            select w.*, 1 + count(*) over (partition by w.priority order by t.number desc nulls last, w.owner, w.queue
                                           rows between unbounded preceding and 1 preceding) as sharing
              from waiting w
              left join lateral (
                   select x.number from app.turns x
                    where x.queue = w.queue and x.priority = w.priority and x.owner = w.owner limit 1) t on true
             order by w.priority, sharing desc
        loop
            exit when _room <= 0 and _limit.kind <> 'key';
            update app.lanes l set held = null, freed_at = app.now()
             where l.id = any(array(
                select x.id from app.lanes x
                 where x.held = _turn.held and not x.closed and x.queue = _turn.queue and x.priority = _turn.priority
                   and x.owner = _turn.owner and (x.next_index < x.width or x.due_at <= app.now())
                   and (x.max_running is null or x.running < x.max_running)
                   and (_room > 0 or _room + app.count_ancestors(x.job, _limit.name) > 0)
                 order by x.place, x.root, x.id
                 limit case when _room > 0 then least(ceil(_room::float / _turn.sharing), 100) else 100 end
                   for update skip locked));
            get diagnostics _freed = row_count;
            _room := _room - _freed;
        end loop;
    end loop;
end;
$$;
