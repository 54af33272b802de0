-- Create a job whole (E2): definition, job, nodes, first event, the caller's key, and the right to start it, held by the
-- submitter. Where it was planned already what its start brings, that is applied at once and the right is spent; the plan
-- knows the job by its first id, so it is for no other. Returns the rights that are left to spend.
-- The same identity gives the job that exists if that one answers for it (app.answers; one that failed is named as
-- failed_before), unless a re-run is asked for. The same key gives the answer of its first time; without a job if the key
-- belongs to another request (E15).
-- The job's id is the hash of _head, the ordinal and _tail: canonical JSON cut where the ordinal stands. A definition that is
-- stored already may be left out. _by: who submits it, with _by_scope, which its first event names (P7, S6); null where a job
-- does. _labels: {name: value, …} of a new job; one that exists keeps its own. _parent: the job that it runs for, whose
-- platform and _tick are its own; else its platform is _platform, or _scope where none is given. _watched: a new job's end is
-- announced (app.has_endpoints). _callbacks: who is called when it ends, as app.watch_job takes them, also for a job that
-- exists. _trace: the traceparent that what a new job does goes on with.
create function app.submit(
    _head text, _tail text, _scope text, _workflow text, _hash text, _definition jsonb, _nodes text[],
    _parameters jsonb, _priority smallint, _rerun boolean, _correlation_id text, _session bigint,
    _key text default null, _request text default null, _keep interval default null, _start jsonb default null,
    _by text default null, _labels jsonb default null, _callbacks jsonb default null, _parent bigint default null,
    _watched boolean default false, _by_scope text default null, _platform text default null, _tick jsonb default null,
    _trace text default null
) returns table (job_id text, state app.job_state, created boolean, replayed boolean, rights bigint[], failed_before text)
language plpgsql as $$
declare
    _identity text := encode(sha256(convert_to(_head || '0' || _tail, 'UTF8')), 'hex');
    _newest record;
    _state app.job_state;
    _ordinal integer;
    _job bigint;
    _right bigint;
begin
    perform app.assert_read_committed();
    if _key is not null then
        perform app.lock_key(_scope, _key);
        return query select k.job_id, k.state, k.created, true, '{}'::bigint[], null from app.recall(_scope, _key, _request) k;
        if found then
            if _callbacks is not null then
                perform app.watch_job(k.job_id, _scope, _callbacks, _by) from app.recall(_scope, _key, _request) k;
            end if;
            return;
        end if;
    end if;
    rights := '{}';
    replayed := false;
    loop
        select j.job_id, j.state, j.ordinal into _newest
          from app.jobs j where j.identity = _identity order by j.ordinal desc limit 1;
        created := not found or _rerun or not app.answers(_newest.job_id, _newest.state, _hash);
        exit when not created;
        if found then
            -- A retry may be at that one: it sees the job that comes after, or there is no need of one.
            select j.state into _state from app.jobs j where j.job_id = _newest.job_id for share;
            continue when _state <> _newest.state;
        end if;
        failed_before := case _newest.state when 'failed' then _newest.job_id end;
        -- A job that was purged keeps its number: its id stands for what is gone.
        _ordinal := 1 + greatest(
            _newest.ordinal, (select max(t.ordinal) from app.tombstones t where t.identity = _identity), -1);
        insert into app.workflows (hash, workflow, definition, created_at)
        select _hash, _workflow, _definition, app.now() where _definition is not null on conflict do nothing;
        insert into app.jobs (job_id, identity, ordinal, scope, platform, workflow, workflow_hash, parameters, priority,
                              state, generation, correlation_id, last_event, created_at, parent, watched, tick)
        values (encode(sha256(convert_to(_head || _ordinal || _tail, 'UTF8')), 'hex'), _identity, _ordinal, _scope,
                coalesce((select p.platform from app.jobs p where p.id = _parent), _platform, _scope), _workflow, _hash, _parameters,
                _priority, 'pending', 0, _correlation_id, 1, app.now(), _parent,
                _watched, coalesce((select p.tick from app.jobs p where p.id = _parent), _tick))
        on conflict do nothing
        returning id into _job;
        exit when _job is not null;
    end loop;
    if created then
        insert into app.nodes (job, name, position, state, generation)
        select _job, n.name, n.position, 'pending', 0 from unnest(_nodes) with ordinality as n(name, position);
        if _labels is not null then
            insert into app.labels (job, name, value)
            select _job, l.key, l.value from jsonb_each_text(_labels) l;
        end if;
        if _trace is not null then
            insert into app.job_traces (job, traceparent) values (_job, _trace);
        end if;
        insert into app.events (job, seq, at, kind, data)
        values (_job, 1, app.now(), 'job.submitted',
                jsonb_strip_nulls(jsonb_build_object('ordinal', _ordinal, 'by', _by, 'scope', _by_scope)));
        insert into app.rights (job, node, purpose, generation, session, takes, taken_until, made_at)
        select _job, '', 'start', 0, s.id, 1, app.now() + s.lease, app.now()
          from (select _session as id) given left join app.sessions s using (id)
        returning id into _right;
        rights := array[_right];
        if _start is not null and _ordinal = 0 then
            select a.rights into strict rights from app.apply(_right, _session, 1, 1, _start) a where a.applied;
        end if;
        select j.job_id, j.state, j.ordinal into _newest from app.jobs j where j.id = _job;
    end if;
    if _key is not null then
        perform app.keep_answer(_scope, _key, _request, _keep, _newest.job_id, _newest.state, created);
    end if;
    if _callbacks is not null then
        perform app.watch_job(_newest.job_id, _scope, _callbacks, _by);
    end if;
    return query select _newest.job_id, _newest.state, submit.created, submit.replayed, submit.rights,
                        submit.failed_before;
end;
$$;
