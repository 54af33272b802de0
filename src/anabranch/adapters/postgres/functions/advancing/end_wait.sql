-- Give the right to advance for a gate or wait that is open, held by the session, once (E6). Null: it isn't open, or the
-- right was given before.
create function app.end_wait(_job bigint, _node text, _purpose app.lane_purpose, _session bigint)
returns bigint language plpgsql as $$
declare
    _right bigint;
begin
    insert into app.rights (job, node, purpose, generation, session, takes, taken_until, made_at)
    select w.job, w.node, _purpose, w.generation, s.id, 1, app.now() + s.lease, app.now()
      from app.waits w left join app.sessions s on s.id = _session and s.dead_at is null
     where w.job = _job and w.node = _node
    on conflict do nothing
    returning id into _right;
    return _right;
end;
$$;
