-- The handler of a task: its own, or that of its lane.
create function app.handler_of(_lane bigint, _idx integer) returns text language plpgsql stable as $$
begin
    return coalesce((select i.handler from app.items i where i.lane = _lane and i.idx = _idx),
                    (select l.handler from app.lanes l where l.id = _lane));
end;
$$;
