-- Trade a claim for a child job, whole or not at all (E2): the job is created, and its row of app.children takes the
-- place of the claim, so that the lane counts the task as running. Returns null when the claim is not the session's any
-- more (E3), else the job and the rights to go on with it; asked again, the same job.
create function app.spawn(
    _session bigint, _lane bigint, _idx integer, _attempt integer, _head text, _tail text, _scope text, _workflow text,
    _hash text, _definition jsonb, _nodes text[], _parameters jsonb, _start jsonb,
    _token bigint, _trace text default null
) returns table (job_id text, rights bigint[]) language plpgsql as $$
declare
    _claim app.claims;
    _parent record;
    _child record;
begin
    perform app.assert_read_committed();
    lock table app.claims, app.children in row exclusive mode;
    select c.* into _claim from app.claims c
     where c.lane = _lane and c.idx = _idx and c.attempt = _attempt and c.session = _session
       and c.token = _token for update;
    if not found then
        return query select j.job_id, '{}'::bigint[] from app.children k join app.jobs j on j.id = k.job
                      where k.lane = _lane and k.idx = _idx and k.attempt = _attempt
                        and k.token = _token;
        return;
    end if;
    perform from app.lanes l where l.id = _lane and not l.closed for update;
    if not found then
        return;
    end if;
    select j.id, j.priority, j.correlation_id into strict _parent
      from app.lanes l join app.jobs j on j.id = l.job where l.id = _lane;
    select s.* into strict _child
      from app.submit(_head, _tail, _scope, _workflow, _hash, _definition, _nodes, _parameters, _parent.priority, false,
                      _parent.correlation_id, _session, _start => _start, _parent => _parent.id, _trace => _trace) s;
    insert into app.children (job, lane, idx, attempt, token, failures, crashes, first_at, claimed_at, ended_at)
    select j.id, _lane, _idx, _attempt, _claim.token, _claim.failures, _claim.crashes, _claim.first_at,
           _claim.claimed_at, j.finished_at
      from app.jobs j where j.job_id = _child.job_id;
    delete from app.claims c where c.lane = _lane and c.idx = _idx;
    return query select _child.job_id, _child.rights;
end;
$$;
