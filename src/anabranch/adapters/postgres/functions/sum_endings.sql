-- Add the ends of jobs to the sums by workflow and state. There are sums of at most _workflows workflows, the first that
-- came; what others add goes to the workflow named '', for whoever reads them gives each a series of its own. One sweeper
-- does it at a time, and none waits. Answers how many ends there were.
create function app.sum_endings(_workflows integer, _batch integer) returns integer language plpgsql as $$
declare
    _summed integer;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('app.sum_endings', 0)) then
        return 0;
    end if;
    with gone as (
        delete from app.job_endings where ctid = any(array(select e.ctid from app.job_endings e limit _batch))
        returning workflow, state),
    known as (select distinct k.workflow from app.ended_jobs k where k.workflow <> ''),
    fresh as (
        select f.workflow from (select distinct g.workflow from gone g) f
         where f.workflow not in (select workflow from known)
         order by f.workflow limit greatest(0, _workflows - (select count(*) from known))),
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
