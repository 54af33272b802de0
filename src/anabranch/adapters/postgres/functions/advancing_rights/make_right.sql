-- Give the right to advance for a lane that closed, held by the session that closed it. Once per lane (E6).
create function app.make_right(_lane bigint, _session bigint) returns bigint language plpgsql as $$
declare
    _right bigint;
begin
    insert into app.rights (job, node, purpose, generation, lane, session, takes, taken_until, made_at)
    select l.job, l.node, l.purpose, l.generation, l.id, s.id, 1, app.now() + s.lease, app.now()
      from app.lanes l left join app.sessions s on s.id = _session and s.dead_at is null
     where l.id = _lane
    on conflict do nothing
    returning id into _right;
    return _right;
end;
$$;
