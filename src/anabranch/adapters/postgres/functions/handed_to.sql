-- The parameters that the task with this index of a lane handed over. Null: none.
create function app.handed_to(_lane bigint, _key text) returns jsonb language sql stable as $$
    select o.handed
      from (select 1) one
      left join app.items i on i.lane = _lane and i.key = _key
      join app.outcomes o on o.lane = _lane
       and o.idx = coalesce(i.idx, case when _key ~ '^(0|[1-9][0-9]{0,8})$' and not exists (
               select from app.items x where x.lane = _lane and x.idx = _key::integer and x.key is not null)
           then _key::integer end);
$$;
