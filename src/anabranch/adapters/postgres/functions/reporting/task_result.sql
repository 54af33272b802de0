-- The accepted result of the task with this index of a node, in an array of one: a result may be null. Null: none.
create function app.task_result(_job bigint, _node text, _key text) returns jsonb language plpgsql stable as $$
declare
    _lane bigint;
    _index integer;
begin
    select l.id into _lane from app.lanes l where l.job = _job and l.node = _node and l.purpose = 'work'
       and not l.superseded
     order by l.generation desc limit 1;
    _index := app.find_index(_lane, _key);
    return (
        select jsonb_build_array(app.result_of(o)) from app.outcomes o
         where o.lane = _lane and o.idx = _index and o.outcome = 'completed');
end;
$$;
