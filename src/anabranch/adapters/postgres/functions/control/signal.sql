-- Give a gate the signal that it waits for. The first signal of a generation counts, also one that comes before the gate is
-- reached. Returns `missing` (no such job), `ended` (the job or the gate is over), `accepted`, `same` (it got
-- an equal signal before) or `other` (it got another one); and the right to advance, held by the session, if the gate is open.
create function app.signal(_job_id text, _node text, _payload jsonb, _sender text, _session bigint)
returns table (verdict text, right_id bigint) language plpgsql as $$
declare
    _job app.jobs;
    _gate app.nodes;
    _received jsonb;
begin
    perform app.assert_read_committed();
    select j.* into _job from app.jobs j where j.job_id = _job_id for no key update;
    select n.* into _gate from app.nodes n where n.job = _job.id and n.name = _node;
    if not found then
        return query select 'missing', null::bigint;
        return;
    end if;
    select s.payload into _received from app.signals s
     where s.job = _job.id and s.node = _node and s.generation = _gate.generation;
    if found then
        return query select case when _received = _payload then 'same' else 'other' end, null::bigint;
        return;
    end if;
    if _gate.state not in ('pending', 'running') then
        return query select 'ended', null::bigint;
        return;
    end if;
    insert into app.signals (job, node, generation, payload, sender, at)
    values (_job.id, _node, _gate.generation, _payload, _sender, app.now());
    perform app.add_event(_job.id, 'gate.signalled', _node, jsonb_build_object('payload', _payload, 'by', _sender));
    return query select 'accepted', app.end_wait(_job.id, _node, 'gate', _session);
end;
$$;
