-- Whether a live worker has a handler in a major version.
create function app.has_handler_version(_handler text, _version integer) returns boolean language plpgsql stable as $$
begin
    return exists (
        select from app.sessions s join app.session_versions v on v.session = s.id
         where s.kind = 'worker' and s.dead_at is null
           and substring(v.versions ->> _handler from '^[0-9]+')::numeric = _version);
end;
$$;
