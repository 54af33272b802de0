-- Move a job to a state, with its event. A terminal state closes every open lane: nothing more is claimed, and reports of
-- running tasks are stale (E7); it is recorded for the job that waits for it, and counted, with the time
-- since it was submitted or retried. The result is given, or it is the
-- outputs of the nodes named. The caller holds the job's row.
create function app.set_job(_job bigint, _change jsonb) returns void language plpgsql as $$
declare
    _state app.job_state := (_change ->> 'state')::app.job_state;
    _workflow text;
    _began_at timestamptz;
    _ended boolean := _state in ('completed', 'failed', 'cancelled');
begin
    update app.jobs
       set state = _state, error = nullif(_change -> 'error', 'null'),
           result = case when _state = 'completed' then
               coalesce(nullif(_change -> 'result', 'null'), app.job_result(_job, _change -> 'results_of')) end,
           started_at = coalesce(started_at, app.now()),
           finished_at = case when _ended then app.now() end,
           ending = case when not _ended then ending end
     where id = _job
    returning workflow, case when generation > 0 then (
                  select max(e.at) from app.events e where e.job = _job and e.kind = 'job.retried')
              else created_at end into _workflow, _began_at;
    if _ended then
        update app.lanes set closed = true
         where id in (select id from app.lanes where job = _job and not closed order by id for update);
        update app.children set ended_at = app.now() where job = _job;
        perform app.measure('job', _workflow, _state::text, app.now() - _began_at);
    end if;
    perform app.add_event(_job, 'job.' || _state, null, coalesce(nullif(_change -> 'error', 'null'), '{}')
                                                        || jsonb_strip_nulls(jsonb_build_object('by', _change -> 'by')));
end;
$$;
