-- What a job makes its publications with: its parameters, and the versions of the handlers that ran for it and for the
-- jobs that it is a part of, the one that asks among them.
create function app.find_making(_job_id text)
returns table (parameters jsonb, handlers jsonb) language sql stable as $$
    with recursive jobs(id, parent) as (
        select j.id, j.parent from app.jobs j where j.job_id = _job_id
        union all
        select j.id, j.parent from app.jobs j join jobs below on j.id = below.parent),
    ran(handler, session) as (
        select distinct coalesce(i.handler, l.handler), t.session
          from jobs j
          join app.lanes l on l.job = j.id and not l.superseded
         cross join lateral (
               select o.idx, o.session from app.outcomes o where o.lane = l.id and o.outcome = 'completed'
                union all
               select c.idx, c.session from app.claims c where c.lane = l.id) t
          left join app.items i on i.lane = l.id and i.idx = t.idx and i.handler is not null),
    versions(handler, versions) as (
        select r.handler, jsonb_agg(distinct v.versions -> r.handler)
          from ran r join app.session_versions v on v.session = r.session
         where v.versions ? r.handler
         group by r.handler)
    select j.parameters, coalesce((select jsonb_object_agg(v.handler, v.versions) from versions v), '{}')
      from app.jobs j where j.job_id = _job_id;
$$;
