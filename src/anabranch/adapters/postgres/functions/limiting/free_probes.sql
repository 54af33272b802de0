-- Let a lane of these queues be claimed again for each breaker whose time is over and that nobody probes, so that app.find_room
-- gives its one task out. Without queues: ten lanes whose tasks may wait only so long.
create function app.free_probes(_queues text[]) returns void language plpgsql as $$
begin
    perform app.free_broken(b.kind, b.name, case when _queues is null then 10 else 1 end, _queues)
       from app.breakers b
      where b.is_open and b.open_until <= app.now()
        and (b.probe_at is null or b.probe_at + b.open_for <= app.now());
end;
$$;
