-- Whether an attempt is the current one of its task, and its job goes on. Until the caller's commit nobody ends
-- the job, so what an attempt publishes with it is of a job that runs (E3, E7).
create function app.hold_attempt(
    _job_id text, _node text, _attempt integer, _lane bigint default null, _idx integer default null,
    _token bigint default null
) returns boolean language plpgsql as $$
declare
    _job app.jobs;
begin
    select * into _job from app.jobs j where j.job_id = _job_id for share;
    return found and _job.state not in ('completed', 'failed', 'cancelled') and exists (
        select from app.lanes l
          join app.claims c on c.lane = l.id
         where l.job = _job.id and l.node = _node and not l.closed and c.attempt = _attempt
           and (c.lane, c.idx, c.token) = (coalesce(_lane, c.lane), coalesce(_idx, c.idx), coalesce(_token, c.token)));
end;
$$;
