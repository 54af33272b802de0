-- Cancel a job: the job, its nodes and its lanes in one commit, so that nothing more of it is dispatched and reports of
-- running tasks are stale (E7). _by: who cancels it, which the event names (P7); null for the engine. Returns no state if
-- there is no such job, else its state now, where a terminal one stays (E5); and whether this call cancelled it: of several
-- at once, exactly one did.
create function app.cancel_job(
    _job_id text, _reason text, _by text, out state app.job_state, out changed boolean
) language plpgsql as $$
declare
    _job app.jobs;
begin
    perform app.assert_read_committed();
    select j.* into _job from app.jobs j where j.job_id = _job_id for no key update;
    state := _job.state;
    changed := false;
    if not found or _job.state in ('completed', 'failed', 'cancelled') then
        return;
    end if;
    perform app.set_node(_job.id, jsonb_build_object('node', n.name, 'state', 'cancelled'))
       from app.nodes n where n.job = _job.id and n.state in ('pending', 'running');
    perform app.set_job(_job.id, jsonb_build_object(
        'state', 'cancelled', 'error', jsonb_build_object('code', 'job.cancelled', 'message', _reason), 'by', _by));
    delete from app.rights where job = _job.id;
    state := 'cancelled';
    changed := true;
end;
$$;
