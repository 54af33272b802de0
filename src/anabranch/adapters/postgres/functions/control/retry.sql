-- Begin a new generation of a job that has ended (E5): the nodes named are pending again, those of _kept go on with the
-- results they have, and the right to start is the session's. What the old generation left behind is history: its lanes
-- are superseded and stay closed, its rights are gone. Returns `missing`, `open` (it has not ended), `child` (another job
-- runs it), `older` (not the newest of its parameters), `moved` (it changed since it was read) or `retried`.
create function app.retry(
    _job_id text, _version integer, _nodes text[], _kept text[], _data jsonb, _session bigint,
    _by text default null
) returns table (verdict text, right_id bigint) language plpgsql as $$
declare
    _job app.jobs;
    _right bigint;
begin
    perform app.assert_read_committed();
    perform app.lock_asset(_job_id);
    select j.* into _job from app.jobs j where j.job_id = _job_id for no key update;
    verdict := case
        when not found then 'missing'
        when _job.state not in ('completed', 'failed', 'cancelled') then 'open'
        when _job.parent is not null then 'child'
        when exists (select from app.jobs x where x.identity = _job.identity and x.ordinal > _job.ordinal) then 'older'
        when _job.last_event <> _version then 'moved'
        else 'retried' end;
    if verdict <> 'retried' then
        return query select verdict, null::bigint;
        return;
    end if;
    update app.jobs
       set state = 'pending', generation = generation + 1, result = null, error = null, finished_at = null,
           ending = null
     where id = _job.id;
    if _job.scope like 'schedule:%' then  -- of a tick: those after it look whether this job goes on
        update app.schedule_ticks t set open = true
         where t.schedule = split_part(split_part(_job.scope, ':', 2), '/', 1)::bigint
           and t.at = (_job.tick ->> 'scheduled_at')::timestamptz and t.job_id = _job.job_id;
    end if;
    update app.nodes n
       set state = 'pending', generation = _job.generation + 1, output = null, error = null, opened_at = null,
           finished_at = null, kept = n.name = any(_kept) and exists (
               select from app.lanes l where l.job = _job.id and l.node = n.name and l.purpose = 'work')
     where n.job = _job.id and n.name = any(_nodes);
    update app.lanes l set superseded = true
     where l.id in (select x.id from app.lanes x where x.job = _job.id and x.node = any(_nodes) order by x.id for update);
    delete from app.rights r where r.job = _job.id;
    perform app.add_event(_job.id, 'job.retried', null,
                          _data || jsonb_build_object('generation', _job.generation + 1, 'nodes', to_jsonb(_nodes))
                                || jsonb_strip_nulls(jsonb_build_object('by', _by)));
    insert into app.rights (job, node, purpose, generation, session, takes, taken_until, made_at)
    select _job.id, '', 'start', _job.generation + 1, s.id, 1, app.now() + s.lease, app.now()
      from (select _session as id) given left join app.sessions s using (id)
    returning id into _right;
    return query select 'retried', _right;
end;
$$;
