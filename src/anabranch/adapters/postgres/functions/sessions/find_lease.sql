-- The lease of a live session; null for one that is dead or unknown.
create function app.find_lease(_session bigint) returns interval language sql stable as $$
    select s.lease from app.sessions s where s.id = _session and s.dead_at is null;
$$;
