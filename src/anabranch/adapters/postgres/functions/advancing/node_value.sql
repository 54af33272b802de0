-- A part of a node's output, by path; no row when there is no such thing. An output that was put aside is answered
-- whole, as its reference, and one of many tasks whole, as `many`. A node with one task has that task's result, and one
-- that failed and let its job go on {"error"}.
create function app.node_value(_job_id text, _node text, _path text[])
returns table (value jsonb, reference jsonb, many jsonb) language plpgsql stable as $$
declare
    _job bigint;
    _output jsonb;
    _lane app.lanes;
begin
    select n.job, n.output into _job, _output
      from app.jobs j join app.nodes n on n.job = j.id where j.job_id = _job_id and n.name = _node;
    if _output is null then
        select l.* into _lane from app.lanes l
         where l.job = _job and l.node = _node and not l.superseded and l.purpose in ('work', 'aggregate')
         order by l.generation desc, l.purpose desc limit 1;
        if _lane.policy ? 'single' or _lane.purpose = 'aggregate' then
            select case when o.outcome = 'completed' then coalesce(o.result, 'null')
                        else jsonb_build_object('error', o.error) end, o.reference
              into _output, reference from app.outcomes o where o.lane = _lane.id and o.idx = 0;
        elsif _path[1] in ('count', 'failed') then
            _output := jsonb_build_object('count', _lane.width - _lane.remaining - _lane.failed, 'failed', _lane.failed);
        elsif _lane.id is not null then
            many := app.lane_output(_lane.id, 16000000);
        end if;
    end if;
    value := _output #> _path;
    if value is not null or reference is not null or many is not null then
        return next;
    end if;
end;
$$;
