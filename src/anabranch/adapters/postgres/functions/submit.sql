-- Create a job whole (E2): definition, job, nodes, first event and the right to start it, held by the submitter.
-- The same identity gives the job that exists, unless that one failed, was cancelled, or a re-run is asked for (E15).
-- The job's id is the hash of _head, the ordinal and _tail: canonical JSON cut where the ordinal stands.
create function app.submit(
    _head text, _tail text, _scope text, _workflow text, _hash text, _definition jsonb, _nodes text[],
    _parameters jsonb, _priority smallint, _rerun boolean, _correlation_id text, _session bigint
) returns table (job_id text, state app.job_state, created boolean, right_id bigint) language plpgsql as $$
declare
    _identity text := encode(sha256(convert_to(_head || '0' || _tail, 'UTF8')), 'hex');
    _newest record;
    _state app.job_state;
    _ordinal integer;
    _job bigint;
begin
    perform app.assert_read_committed();
    loop
        select j.job_id, j.state, j.ordinal into _newest
          from app.jobs j where j.identity = _identity order by j.ordinal desc limit 1;
        if found and not _rerun and _newest.state not in ('failed', 'cancelled') then
            return query select _newest.job_id, _newest.state, false, null::bigint;
            return;
        end if;
        -- A retry may be at that one: it sees the job that comes after, or there is no need of one.
        select j.state into _state from app.jobs j where j.job_id = _newest.job_id for share;
        continue when _state <> _newest.state;
        _ordinal := coalesce(_newest.ordinal + 1, 0);
        insert into app.workflows (hash, workflow, definition, created_at)
        values (_hash, _workflow, _definition, app.now()) on conflict do nothing;
        insert into app.jobs (job_id, identity, ordinal, scope, workflow, workflow_hash, parameters, priority,
                              state, generation, correlation_id, last_event, created_at)
        values (encode(sha256(convert_to(_head || _ordinal || _tail, 'UTF8')), 'hex'), _identity, _ordinal, _scope,
                _workflow, _hash, _parameters, _priority, 'pending', 0, _correlation_id, 0, app.now())
        on conflict do nothing
        returning id into _job;
        exit when _job is not null;
    end loop;
    insert into app.nodes (job, name, position, state, generation)
    select _job, n.name, n.position, 'pending', 0 from unnest(_nodes) with ordinality as n(name, position);
    perform app.add_event(_job, 'job.submitted', null, jsonb_build_object('ordinal', _ordinal));
    insert into app.rights (job, node, purpose, generation, session, takes, taken_until, made_at)
    select _job, '', 'start', 0, s.id, 1, app.now() + s.lease, app.now()
      from (select _session as id) given left join app.sessions s using (id)
    returning id into right_id;
    return query select j.job_id, j.state, true, right_id from app.jobs j where j.id = _job;
end;
$$;
