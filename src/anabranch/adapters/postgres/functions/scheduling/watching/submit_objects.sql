-- Make the jobs of objects that were found unchanged, [{place, address, version, reason}, …], in one commit with their ticks: each
-- version gets one job, or a tick that says why there is none (reason; it has no submission with its place). All of them or
-- none: no row where this look is over (app.hold_look), or one of them is not as it was or has its job.
create function app.submit_objects(
    _session bigint, _workflows jsonb, _submissions jsonb, _schedule bigint, _version integer, _look integer, _objects jsonb
) returns table (object text, state app.tick_state, job_id text, rights bigint[]) language plpgsql as $$
declare
    _at timestamptz;
begin
    perform app.assert_read_committed();
    perform from app.hold_look(_session, _schedule, _version, _look);
    if not found or exists (
            select from jsonb_to_recordset(_objects) as o(address text, version text)
              left join app.watched_objects k on k.schedule = _schedule and k.address = o.address
             where k.version is distinct from o.version or k.done is not distinct from o.version or k.gone_at is not null) then
        return;
    end if;
    update app.watched_objects k set done = k.version
      from jsonb_to_recordset(_objects) as o(address text)
     where k.schedule = _schedule and k.address = o.address;
    _at := app.next_tick_at(_schedule);
    return query
    with made as materialized (
        select b.place, b.job_id, b.rights from app.submit_batch(_session, _workflows, _submissions) b),
    noted as (
        insert into app.schedule_ticks (schedule, at, kind, state, reason, job_id, recorded_at, object)
        select _schedule, _at + o.place * interval '1 microsecond', 'regular',
               case when m.job_id is null then 'failed' else 'submitted' end::app.tick_state, o.reason, m.job_id, app.now(),
               o.address
          from jsonb_to_recordset(_objects) as o(place integer, address text, reason text)
          left join made m using (place)
        returning schedule_ticks.object, schedule_ticks.state, schedule_ticks.job_id)
    select n.object, n.state, n.job_id, coalesce(m.rights, '{}')
      from noted n left join made m on m.job_id = n.job_id;
end;
$$;
