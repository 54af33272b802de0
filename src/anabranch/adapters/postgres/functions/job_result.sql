-- The outputs of nodes by name: an aggregate where a node has one, else the result of its one task, or of its many,
-- up to a megabyte.
create function app.job_result(_job bigint, _nodes jsonb) returns jsonb language plpgsql stable as $$
begin
    return (
        select coalesce(jsonb_object_agg(l.node, case when l.purpose = 'aggregate' or l.policy ? 'single'
                   then (select app.result_of(o) from app.outcomes o where o.lane = l.id and o.idx = 0)
                   else app.lane_output(l.id, 1000000) end), '{}')
          from (select distinct on (x.node) x.* from app.lanes x
                 where x.job = _job and x.purpose in ('work', 'aggregate')
                   and x.node in (select jsonb_array_elements_text(_nodes))
                 order by x.node, x.generation desc, x.purpose desc) l);
end;
$$;
