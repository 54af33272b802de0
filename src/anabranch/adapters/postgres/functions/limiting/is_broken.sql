-- Whether a breaker of a queue or handler is open, or its probe is awaited.
create function app.is_broken(_queue text, _handler text) returns boolean language plpgsql stable as $$
begin
    return exists (select from app.breakers b
                    where b.is_open and (b.kind, b.name) in (('queue', _queue), ('handler', _handler)));
end;
$$;
