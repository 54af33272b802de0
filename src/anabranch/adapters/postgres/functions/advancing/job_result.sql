-- The outputs of nodes by name, under a key that no result of a workflow can have: an aggregate or the result of one task
-- as {"value"} or {"reference"}, those of many tasks as {"many"}, up to a megabyte. What a retry left behind is not theirs.
create function app.job_result(_job bigint, _nodes jsonb) returns jsonb language plpgsql stable as $$
begin
    return (
        select jsonb_build_object('anabranch:outputs', coalesce(jsonb_object_agg(l.node,
                   case when l.purpose = 'aggregate' or l.policy ? 'single' then (
                       select case when o.reference is null then jsonb_build_object('value', o.result)
                                   else jsonb_build_object('reference', o.reference) end
                         from app.outcomes o where o.lane = l.id and o.idx = 0)
                   else jsonb_build_object('many', app.lane_output(l.id, 1000000)) end), '{}'))
          from (select distinct on (x.node) x.* from app.lanes x
                 where x.job = _job and not x.superseded and x.purpose in ('work', 'aggregate')
                   and x.node in (select jsonb_array_elements_text(_nodes))
                 order by x.node, x.generation desc, x.purpose desc) l);
end;
$$;
