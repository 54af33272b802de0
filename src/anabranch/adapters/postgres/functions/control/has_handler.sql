-- Whether a live worker has a handler, or one that died after _since had it.
create function app.has_handler(_handler text, _since timestamptz default null) returns boolean language plpgsql stable as $$
begin
    return exists (
        select from app.sessions s
         where s.kind = 'worker' and (s.dead_at is null or s.dead_at > _since) and _handler = any(s.handlers));
end;
$$;
