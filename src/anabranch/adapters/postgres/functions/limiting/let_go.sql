-- Let a lane that was held back be claimed again. The time in which a breaker was open is no time of its tasks: what was due
-- meanwhile goes on as if it had been due at the end of it (E8). The caller holds the lane.
create function app.let_go(_lane bigint, _opened timestamptz, _closed timestamptz) returns void language plpgsql as $$
begin
    update app.due d
       set first_at = d.first_at + (_closed - greatest(_opened, d.due_at)),
           expires_at = d.expires_at + (_closed - greatest(_opened, d.due_at)), due_at = _closed
     where d.lane = _lane and d.expires_at is not null and d.due_at < _closed and _opened is not null;
    update app.lanes l
       set held = null, freed_at = app.now(),
           due_at = (select d.due_at from app.due d where d.lane = _lane order by d.due_at limit 1)
     where l.id = _lane;
end;
$$;
