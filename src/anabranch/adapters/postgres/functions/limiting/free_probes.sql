-- Let a lane of these queues be claimed again for each breaker whose time is over and that nobody probes, so that app.find_room
-- gives its one task out.
create function app.free_probes(_queues text[]) returns void language plpgsql as $$
begin
    perform app.free_broken(b.kind, b.name, 1, _queues)
       from app.breakers b
      where b.is_open and b.open_until <= app.now()
        and (b.probe_at is null or b.probe_at + b.open_for <= app.now());
end;
$$;
