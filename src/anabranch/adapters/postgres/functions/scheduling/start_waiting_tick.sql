-- Make the job of a tick that waits, unless the schedule was changed or is held by another process, or the job of an earlier
-- tick goes on. Returns the state of the tick and the rights to advance its job.
create function app.start_waiting_tick(
    _session bigint, _workflows jsonb, _submissions jsonb, _schedule bigint, _version integer, _at timestamptz, _reason text
) returns table (state app.tick_state, job_id text, rights bigint[]) language plpgsql as $$
declare
    _s app.schedules;
begin
    perform app.assert_read_committed();
    select s.* into _s from app.schedules s
     where s.id = _schedule and s.version = _version and s.paused_at is null and not s.retired
       and exists (select from app.schedule_ticks t where t.schedule = s.id and t.at = _at and t.state = 'waiting')
       for no key update skip locked;
    if found then
        return query select t.* from app.start_tick(_session, _workflows, _submissions, _s, _at, _reason) t;
    end if;
end;
$$;
