-- Make lanes claimable in which the time of a task's next attempt has come. Lanes that others are at are left to them.
create function app.ripen(_queues text[]) returns void language plpgsql as $$
begin
    update app.lanes l set ripe = true
     where l.id = any(array(
        select x.id from app.lanes x
         where x.queue = any(_queues) and not x.ripe and not x.closed and x.due_at <= app.now()
         limit 100 for update skip locked));
end;
$$;
