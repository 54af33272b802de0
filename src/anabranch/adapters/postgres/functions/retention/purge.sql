-- Purge jobs that ended longer ago than _age: each becomes a tombstone and is gone with its nodes, lanes and events, in one
-- commit, so that it is there whole or not at all. The rows of its tasks, which nothing shows any more, remain to be
-- cleared. Of the _look jobs after _after, in the order they were made, at most _jobs are purged, and fewer where they have
-- _rows events. A child stays while its parent is there. Jobs that others hold wait for the next round.
-- Returns how many were purged and after which job to go on, or null when all that follow are younger.
create function app.purge(
    _age interval, _after bigint, _look integer, _jobs integer, _rows integer, out purged integer, out last bigint
) language plpgsql as $$
declare
    _since timestamptz := app.now() - _age;
    _old bigint[];
    _gone bigint[];
begin
    perform app.assert_read_committed();
    if not app.may_remove() then
        purged := 0;
        return;
    end if;
    with looked as (
        select l.* from (select j.id, j.state, j.created_at, j.finished_at, j.last_event from app.jobs j
                          where j.id > _after order by j.id limit _look) l
         where l.created_at < _since),
    ended as (
        select l.id, row_number() over by_id > _jobs or sum(l.last_event) over by_id - l.last_event >= _rows as later
          from looked l where l.state in ('completed', 'failed', 'cancelled') and l.finished_at < _since
        window by_id as (order by l.id))
    select array_agg(e.id) filter (where not e.later),
           coalesce(min(e.id) filter (where e.later) - 1, (select max(l.id) from looked l))
      into _old, last from ended e;
    select array_agg(g.id) into _gone
      from (select j.id from app.jobs j
             where j.id = any(_old) and j.state in ('completed', 'failed', 'cancelled') and j.finished_at < _since
               and app.is_settled(j.id) and not exists (select from app.jobs p where p.id = j.parent)
             order by j.id for update skip locked) g;
    insert into app.tombstones (job, job_id, identity, ordinal, platform, workflow, state, created_at, finished_at, purged_at)
    select j.id, j.job_id, j.identity, j.ordinal, j.platform, j.workflow, j.state, j.created_at, j.finished_at, app.now()
      from app.jobs j where j.id = any(_gone);
    insert into app.remains (lane, job, cleared)
    select l.id, l.job, 0 from app.lanes l where l.job = any(_gone);
    delete from app.superseded_jobs s using app.jobs j where j.id = any(_gone) and s.job_id = j.job_id;
    delete from app.kept_publications k using app.jobs j where j.id = any(_gone) and k.job_id = j.job_id;
    perform app.set_platform_filter('*');
    delete from app.webhook_callbacks c using app.jobs j
     where j.id = any(_gone) and c.subject = j.job_id
       and not exists (select from app.revisions v where v.job_id = c.subject);  -- its release goes on
    delete from app.jobs j where j.id = any(_gone);
    purged := coalesce(cardinality(_gone), 0);
end;
$$;
