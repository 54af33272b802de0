-- Report how a child job ended, as the task that it is: the claim it was traded for comes back, and ends in the same
-- commit. Asked again it does nothing.
create function app.end_child(
    _session bigint, _child bigint, _report jsonb, _token bigint, out answers text[], out rights bigint[]
) language plpgsql as $$
declare
    _task app.children;
begin
    lock table app.claims, app.children in row exclusive mode;
    delete from app.children k where k.job = _child and k.token = _token returning k.* into _task;
    if not found then
        answers := '{}';
        rights := '{}';
        return;
    end if;
    insert into app.claims (lane, idx, attempt, session, token, failures, crashes, first_at, claimed_at, started_at)
    values (_task.lane, _task.idx, _task.attempt, _session, _task.token, _task.failures, _task.crashes, _task.first_at,
            _task.claimed_at, _task.claimed_at);
    select r.answers, r.rights into answers, rights from app.report(_session, jsonb_build_array(_report)) r;
end;
$$;
