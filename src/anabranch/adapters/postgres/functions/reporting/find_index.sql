-- The place in its lane of the task with this key: its own, or its index where it has none. Null: there is no such task.
create function app.find_index(_lane bigint, _key text) returns integer language plpgsql stable as $$
declare
    _index integer;
begin
    select i.idx into _index from app.items i where i.lane = _lane and i.key = _key;
    if found or _key !~ '^(0|[1-9][0-9]{0,8})$' then
        return _index;
    end if;
    perform from app.items i where i.lane = _lane and i.idx = _key::integer and i.key is not null;
    return case when not found then _key::integer end;
end;
$$;
