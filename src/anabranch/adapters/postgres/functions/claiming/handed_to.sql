-- The parameters that the task with this index of a lane handed over. Null: none.
create function app.handed_to(_lane bigint, _key text) returns jsonb language plpgsql stable as $$
declare
    _index integer := app.find_index(_lane, _key);
begin
    return (select o.handed from app.outcomes o where o.lane = _lane and o.idx = _index);
end;
$$;
