-- Lock a look that this process has begun, and note that it gets on. The schedule is locked first, as by those who change or
-- remove it. No row: it is paused, changed or removed, or another process looks.
create function app.hold_look(_session bigint, _schedule bigint, _version integer, _look integer) returns setof app.watches
language plpgsql as $$
begin
    perform from app.schedules s
      where s.id = _schedule and s.version = _version and s.paused_at is null and not s.retired for no key update;
    if found then
        return query
        update app.watches w set turned_at = app.now()
         where w.schedule = _schedule and w.look = _look and w.session = _session
        returning w.*;
    end if;
end;
$$;
