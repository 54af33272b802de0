-- Cancel a job: the job, its nodes and its lanes in one commit, so that nothing more of it is dispatched and reports of
-- running tasks are stale (E7). One with cleanup nodes that has begun is cancelled once these have ended; one that ends
-- already, with its cleanup, is left alone. _by: who cancels it, which the event names (P7); null for the engine. Returns no state if
-- there is no such job, else its state now, where a terminal one stays (E5); and whether this call cancelled it: of several
-- at once, exactly one did.
create function app.cancel_job(
    _job_id text, _reason text, _by text, out state app.job_state, out changed boolean
) language plpgsql as $$
declare
    _job app.jobs;
    _cleanup text[];
    _end jsonb := jsonb_build_object(
        'state', 'cancelled', 'error', jsonb_build_object('code', 'job.cancelled', 'message', _reason), 'by', _by);
begin
    perform app.assert_read_committed();
    select j.* into _job from app.jobs j where j.job_id = _job_id for no key update;
    state := _job.state;
    changed := false;
    if not found or _job.state in ('completed', 'failed', 'cancelled') or _job.ending is not null then
        return;
    end if;
    _cleanup := app.list_cleanup(_job.id);
    perform app.set_node(_job.id, jsonb_build_object('node', n.name, 'state', 'cancelled'))
       from app.nodes n where n.job = _job.id and n.state in ('pending', 'running') and n.name <> all(_cleanup);
    delete from app.rights where job = _job.id;
    if _cleanup = '{}' then
        perform app.set_job(_job.id, _end);
        state := 'cancelled';
    else
        perform app.begin_cleanup(_job.id, _end, null);
        state := 'running';
    end if;
    changed := true;
end;
$$;
