-- The accepted result of the task with this index of a node, in an array of one: a result may be null. Null: none.
create function app.task_result(_job bigint, _node text, _key text) returns jsonb language plpgsql stable as $$
begin
    return (
    select jsonb_build_array(app.result_of(o))
      from (select id from app.lanes where job = _job and node = _node and purpose = 'work'
             order by generation desc limit 1) l
      left join app.items i on i.lane = l.id and i.key = _key
      join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
       and o.idx = coalesce(i.idx, case when _key ~ '^(0|[1-9][0-9]{0,8})$' and not exists (
               select from app.items x where x.lane = l.id and x.idx = _key::integer and x.key is not null)
           then _key::integer end));
end;
$$;
