-- Call these callbacks when a job ends; those that are new to it at once, if it has ended. The job's row is locked first: so
-- its end is seen here, or these callbacks by its end. _callbacks: as app.add_callbacks takes them.
create function app.watch_job(_job_id text, _platform text, _callbacks jsonb, _by text) returns void language plpgsql as $$
declare
    _job app.jobs;
    _new uuid[];
begin
    select j.* into _job from app.jobs j where j.job_id = _job_id for no key update;
    if not found then
        return;
    end if;
    _new := app.add_callbacks(_job_id, _platform, _callbacks, _by);
    update app.jobs set watched = true where id = _job.id and not watched;
    if _job.state in ('completed', 'failed', 'cancelled') and cardinality(_new) > 0 then
        perform app.announce_job(_job, _new);
    end if;
end;
$$;
