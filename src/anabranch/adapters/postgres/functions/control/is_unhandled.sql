-- Whether nobody will ever run a task: its planner named a handler that no worker has had for ten minutes. A handler that
-- its workflow names was there when that was loaded, and comes back with the workers that have it.
create function app.is_unhandled(_lane bigint, _idx integer, _first_at timestamptz) returns boolean
language plpgsql stable as $$
begin
    return _first_at + interval '10 min' < app.now()
       and exists (select from app.items i where i.lane = _lane and i.idx = _idx and i.handler is not null)
       and not app.has_handler(app.handler_of(_lane, _idx), app.now() - interval '10 min');
end;
$$;
