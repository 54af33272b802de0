-- Cancel one child job whose task is over because its lane closed (E7): a child is locked before its parent, so a cancel
-- of the parent can't do it in its own commit; and one commit cancels one, since two would lock lanes out of order. Returns
-- whether it did, or left only its cleanup to do; null if another process has it locked and the caller does not wait. Without _job: the first there is.
create function app.cancel_orphan(_job bigint default null, _wait boolean default true) returns boolean
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    _child app.jobs;
begin
    perform app.assert_read_committed();
    _job := coalesce(_job, (select o from app.find_orphans(0, 1) o));
    if _wait then
        select j.* into _child from app.jobs j where j.id = _job for no key update;
    else
        select j.* into _child from app.jobs j where j.id = _job for no key update skip locked;
    end if;
    if _child.id is null then
        return case when _wait then false end;
    end if;
    perform from app.children k join app.lanes l on l.id = k.lane and l.closed
      where k.job = _job and k.ended_at is null;
    if not found then
        return false;
    end if;
    return (select c.changed from app.cancel_job(_child.job_id, 'the job that runs it is over', null) c);
end;
$$;
