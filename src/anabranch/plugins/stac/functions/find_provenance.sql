-- The provenance of what a job publishes: its workflow and parameters, and the versions of the handlers that took part: in
-- the job itself, in single tasks of the jobs that it is a part of, and in at most 100 of its child jobs. Of a lane with
-- more than 1,000 tasks it is every version that some worker had since the job began, so that the cost is bounded. A
-- handler of an unknown version has 0: its worker is of an earlier release, or its session was removed meanwhile.
create function app.find_provenance(_job_id text)
returns table (
    workflow text, workflow_hash text, created_at timestamptz, started_at timestamptz, parameters jsonb, handlers jsonb
) language sql stable as $$
    with recursive this as (
        select j.* from app.jobs j where j.job_id = _job_id),
    above(id, parent) as (
        select p.id, p.parent from app.jobs p join this t on p.id = t.parent
        union all
        select p.id, p.parent from app.jobs p join above a on p.id = a.parent),
    below(id) as (
        select t.id from this t
        union all
        select c.id from below b join app.jobs c on c.parent = b.id),
    taking_part as (
        select l.* from (select b.id from below b limit 101) j join app.lanes l on l.job = j.id
         where l.purpose = 'work' and not l.superseded
        union all
        select l.* from above a join app.lanes l on l.job = a.id
         where l.purpose = 'work' and not l.superseded and l.width = 1),
    ran(handler, session) as (
        select distinct coalesce(i.handler, l.handler), t.session
          from taking_part l
         cross join lateral (
               select o.idx, o.session from app.outcomes o
                where o.lane = l.id and o.outcome = 'completed' and l.width <= 1000
                union all
               select c.idx, c.session from app.claims c where c.lane = l.id and l.width <= 1000) t
          left join app.items i on i.lane = l.id and i.idx = t.idx and i.handler is not null
        union
        select l.handler, s.id
          from taking_part l cross join this j join app.sessions s on s.kind = 'worker'
         where l.width > 1000 and (s.dead_at is null or s.dead_at > j.created_at) and l.handler = any(s.handlers)),
    known(handler, versions) as (
        select r.handler, jsonb_agg(distinct coalesce(v.versions ->> r.handler, '0'))
          from ran r left join app.session_versions v on v.session = r.session
         where r.handler not like 'anabranch.%'  -- the engine's own work
         group by r.handler)
    select t.workflow, t.workflow_hash, t.created_at, t.started_at, t.parameters,
           coalesce((select jsonb_object_agg(k.handler, k.versions) from known k), '{}')
      from this t;
$$;
