-- Mark lanes as claimable whose next retry is due and that have room for it; a claim then takes from them without waiting.
-- One that comes back is placed
-- like one that is opened. A lane that is held back by a limit stays as it is. Locked lanes are skipped.
create function app.ripen(_queues text[]) returns void language plpgsql as $$
begin
    update app.lanes l set ripe = true,
           place = case when l.claimable then l.place else app.next_place(l.queue, l.priority, l.owner, l.root) end
     where l.id = any(array(
        select x.id from app.lanes x
         where x.queue = any(_queues) and not x.ripe and not x.closed and x.held is null and x.due_at <= app.now()
           and (x.max_running is null or x.running < x.max_running)
         limit 100 for update skip locked));
end;
$$;
