-- Take child jobs that have ended, to report how: for as long as the session's lease lasts nobody else takes them. Their
-- results have a few megabytes together, or there is one. _only: this one, where those of all can't be taken.
create function app.take_ended_children(_session bigint, _limit integer, _only bigint default null)
returns table (
    child bigint, job_id text, state app.job_state, result jsonb, error jsonb, lane bigint, idx integer, attempt integer,
    failures smallint, policy jsonb, parent_id text, node text, token bigint
) language plpgsql as $$
declare
    _lease constant interval := app.find_lease(_session);
begin
    perform app.assert_read_committed();
    if _lease is null then
        return;
    end if;
    return query
    with ended as (
        select k.job, k.ended_at from app.children k
         where k.ended_at is not null and (_only is null or k.job = _only) and (k.taken_until is null or k.taken_until < app.now())
         order by k.ended_at limit _limit for update skip locked),
    sized as (
        select e.job, sum(coalesce(pg_column_size(j.result), 0)) over (order by e.ended_at, e.job)
                      - coalesce(pg_column_size(j.result), 0) as before
          from ended e join app.jobs j on j.id = e.job),
    taken as (
        update app.children k set taken_until = app.now() + _lease from sized
         where k.job = sized.job and sized.before < 4000000
        returning k.*)
    select t.job, j.job_id, j.state, j.result, j.error, t.lane, t.idx, t.attempt, t.failures, l.policy, p.job_id, l.node,
           t.token
      from taken t join app.jobs j on j.id = t.job
      join app.lanes l on l.id = t.lane join app.jobs p on p.id = l.job;
end;
$$;
