-- Whether a worker that lives has a handler.
create function app.has_handler(_handler text) returns boolean language plpgsql stable as $$
begin
    return exists (select from app.sessions s where s.dead_at is null and s.kind = 'worker' and _handler = any(s.handlers));
end;
$$;
