-- Whether a breaker of a queue or handler lets nothing begin now: its time is not over, or its probe is awaited.
create function app.is_broken(_queue text, _handler text) returns boolean language plpgsql stable as $$
begin
    return exists (select from app.breakers b
                    where b.is_open and (b.kind, b.name) in (('queue', _queue), ('handler', _handler))
                      and (b.open_until > app.now() or b.probe_at + b.open_for > app.now()));
end;
$$;
