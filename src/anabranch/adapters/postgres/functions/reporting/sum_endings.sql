-- Add the ends of jobs to the totals by workflow and state. At most _workflows workflows have their own total, those that came
-- first; all others count under '', because each total is a metric of its own. When a new one comes and there is no room,
-- workflows that have no definition any more lose theirs to '', so that the sum of all never falls. One sweeper does it at a
-- time, and none waits. Returns how many ends there were.
create function app.sum_endings(_workflows integer, _batch integer) returns integer language plpgsql as $$
declare
    _summed integer;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('app.sum_endings', 0)) then
        return 0;
    end if;
    if (select count(distinct k.workflow) from app.ended_jobs k where k.workflow <> '') >= _workflows
       and exists (select from app.job_endings e
                    where not exists (select from app.ended_jobs k where k.workflow = e.workflow)) then
        with freed as (
            delete from app.ended_jobs k
             where k.workflow <> '' and not exists (select from app.workflows w where w.workflow = k.workflow)
            returning k.state, k.jobs)
        insert into app.ended_jobs as s (workflow, state, jobs)
        select '', f.state, sum(f.jobs) from freed f group by f.state
        on conflict (workflow, state) do update set jobs = s.jobs + excluded.jobs;
    end if;
    with gone as (
        delete from app.job_endings where ctid = any(array(select e.ctid from app.job_endings e limit _batch))
        returning id, workflow, state),
    known as (select distinct k.workflow from app.ended_jobs k where k.workflow <> ''),
    fresh as (
        select g.workflow from gone g where g.workflow not in (select workflow from known)
         group by g.workflow order by min(g.id) limit greatest(0, _workflows - (select count(*) from known))),
    named as (
        select case when g.workflow in (select workflow from known union all select workflow from fresh)
                    then g.workflow else '' end as workflow, g.state
          from gone g),
    added as (
        insert into app.ended_jobs as s (workflow, state, jobs)
        select n.workflow, n.state, count(*) from named n group by n.workflow, n.state
        on conflict (workflow, state) do update set jobs = s.jobs + excluded.jobs)
    select count(*)::integer into _summed from gone;
    return _summed;
end;
$$;
