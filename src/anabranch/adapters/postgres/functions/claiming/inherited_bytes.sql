-- How many bytes a task gets at most from the task of the same index in another lane: its result, or what it handed over.
create function app.inherited_bytes(_lane bigint, _results boolean) returns integer language plpgsql stable as $$
begin
    return (select coalesce(max(app.data_bytes(case when _results then o.result else o.handed end)), 0)
              from app.outcomes o where o.lane = _lane);
end;
$$;
