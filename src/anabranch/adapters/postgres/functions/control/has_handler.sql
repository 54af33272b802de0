-- Whether a worker has a handler that lives, or has died since; one of the release before does not say, and may have it.
create function app.has_handler(_handler text, _since timestamptz default null) returns boolean language plpgsql stable as $$
begin
    return exists (
        select from app.sessions s
         where s.kind = 'worker' and (s.dead_at is null or s.dead_at > _since)
           and (s.handlers is null or _handler = any(s.handlers)));
end;
$$;
