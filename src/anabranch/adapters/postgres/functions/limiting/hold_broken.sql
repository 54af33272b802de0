-- Hold lanes back whose queue or handler has an open breaker, of one queue where that is given: very many that wait for one
-- are passed in a few steps (E13). Locked lanes are skipped: the sweeper and claims come to them later.
create function app.hold_broken(_kind text, _name text, _queue text default null) returns void language plpgsql as $$
begin
    update app.lanes l set held = 'breaker ' || _kind || ' ' || _name
     where l.id = any(array(
        select x.id from app.lanes x
         where not x.closed and x.held is null and (x.claimable or x.due_at is not null)
           and (_queue is null or x.queue = _queue)
           and _name = case _kind when 'queue' then x.queue else x.handler end
         order by x.id limit 1000 for update skip locked));
end;
$$;
