-- Make lanes claimable in which the time of a task's next attempt has come and there is room for it: a claim takes from
-- them and waits for no other. So a lane that is held back, from which none can take, stays as it is. Lanes that others
-- are at are left to them.
create function app.ripen(_queues text[]) returns void language plpgsql as $$
begin
    update app.lanes l set ripe = true
     where l.id = any(array(
        select x.id from app.lanes x
         where x.queue = any(_queues) and not x.ripe and not x.closed and x.held is null and x.due_at <= app.now()
           and (x.max_running is null or x.running < x.max_running)
         limit 100 for update skip locked));
end;
$$;
