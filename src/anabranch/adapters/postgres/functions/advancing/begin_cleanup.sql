-- Nothing of a job is left to run but its cleanup nodes: close its lanes, so that nothing more of it is claimed and reports of
-- running tasks are stale (E7), and note how it ends after them, as app.set_job takes it. Its state is running until then.
-- Gives the right to begin, once, held by the session if nothing of the job runs any more; else app.take_rights gives it out
-- when all that ran has stopped. The caller holds the job's row.
create function app.begin_cleanup(_job bigint, _end jsonb, _session bigint) returns bigint language plpgsql as $$
declare
    _right bigint;
begin
    update app.jobs set state = 'running', ending = _end where id = _job;
    update app.lanes set closed = true
     where id in (select id from app.lanes where job = _job and not closed order by id for update);
    perform app.add_event(_job, 'job.ending', null, jsonb_strip_nulls(jsonb_build_object(
        'state', _end -> 'state', 'error', _end -> 'error', 'by', _end -> 'by')));
    insert into app.rights (job, node, purpose, generation, session, takes, taken_until, made_at)
    select j.id, '', 'start', j.generation, s.id, 1, app.now() + s.lease, app.now()
      from app.jobs j
      left join app.sessions s on s.id = _session and s.dead_at is null and not app.is_stopping(j.id)
     where j.id = _job
    returning id into _right;
    return _right;
end;
$$;
