-- A page of the results of a node's tasks in order, after an index, as planners and fan-ins get them: JSON texts, one a
-- line, up to a few megabytes. Null: there are no more.
create function app.node_results(_job_id text, _node text, _after integer)
returns table (lines text, count integer, last integer, has_references boolean) language plpgsql stable as $$
declare
    _lane bigint;
begin
    select l.id into _lane from app.lanes l join app.jobs j on j.id = l.job
     where j.job_id = _job_id and l.node = _node and l.purpose = 'work' order by l.generation desc limit 1;
    return query
    with sized as (
        select o.*, sum(coalesce(pg_column_size(o.result), 0)) over (order by o.idx) as size
          from (select x.* from app.outcomes x where x.lane = _lane and x.idx > _after order by x.idx limit 5000) o),
    page as (
        select s.* from sized s where s.size <= 4e6
        union
        (select s.* from sized s order by s.idx limit 1))
    select string_agg(jsonb_build_object(
               'task_id', _job_id || '-' || _node || '-' || coalesce(i.key, p.idx::text), 'index', case
                   when i.key ~ '^(0|[1-9][0-9]{0,8})$' then to_jsonb(i.key::integer)
                   else coalesce(to_jsonb(i.key), to_jsonb(p.idx)) end,
               'status', p.outcome, 'result', case when p.reference is null then p.result
                   else jsonb_build_object('anabranch:reference', p.reference) end)::text, E'\n' order by p.idx),
           count(*)::integer, max(p.idx), bool_or(p.reference is not null)
      from page p left join app.items i on i.lane = _lane and i.idx = p.idx
    having count(*) > 0;
end;
$$;
