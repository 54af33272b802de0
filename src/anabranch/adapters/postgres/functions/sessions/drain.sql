-- Let a worker claim nothing more, or again. False: there is no such live session.
create function app.drain(_session bigint, _draining boolean) returns boolean language plpgsql as $$
begin
    update app.sessions set draining = _draining where id = _session and kind = 'worker' and dead_at is null;
    return found;
end;
$$;
