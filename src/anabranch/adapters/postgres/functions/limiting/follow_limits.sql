-- Hold lanes back that a limit pauses, and let those go for which there is room again, in lanes whose tasks may wait for
-- a worker only so long, whether or not a worker asks: their time counts while they can be taken (E8). Claims do the
-- same where they come by. The same for breakers: while nothing may begin all wait, and once one task may try, some
-- lanes can be taken whose tasks may wait only so long, so that these end where no worker is left (E1). Last, what changed for
-- each limit is summed up, whether or not it is claimed from. Returns how many lanes were held back.
create function app.follow_limits() returns integer language plpgsql as $$
declare
    _lane app.lanes;
    _held integer := 0;
begin
    perform app.assert_read_committed();
    perform app.hold_broken(b.kind, b.name) from app.breakers b
      where b.is_open and (b.open_until > app.now() or b.probe_at + b.open_for > app.now());
    perform app.free_probes(null);
    if not exists (select from app.limits) then
        return 0;
    end if;
    for _lane in
        select l.* from app.lanes l
         where l.claimable and l.queue_timeout is not null and exists (
            select from app.limits m
             where m.paused and m.name = case m.kind
                   when 'queue' then l.queue when 'handler' then l.handler when 'key' then l.limit_key
                   else (select j.workflow from app.jobs j where j.id = l.job) end)
         order by l.id limit 10 for update of l skip locked
    loop
        _held := _held + (app.find_limit_room(_lane) = 0)::integer;
    end loop;
    perform app.free_held(array(
        select distinct l.queue from app.lanes l where l.held is not null and not l.closed and l.queue_timeout is not null));
    perform app.fold_running(m.kind, m.name, 1)
       from (select x.kind, x.name from app.limits x where x.most is not null for no key update skip locked) m;
    return _held;
end;
$$;
