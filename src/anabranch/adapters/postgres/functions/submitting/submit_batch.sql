-- Submit many jobs in one commit. All callers take their locks in one order, so that none waits in a circle: the
-- definitions by hash, then the keys, then the jobs by identity. An error is that of the whole batch.
-- AN002: a part of a workflow has no definition here; the caller stores it first.
-- Plans are pinned: what was right for an empty table must not stay when it has grown.
create function app.submit_batch(_session bigint, _workflows jsonb, _submissions jsonb)
returns table (
    place integer, job_id text, state app.job_state, created boolean, replayed boolean, rights bigint[],
    failed_before text
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    _s record;
    _platform text;
    _watched boolean;
begin
    perform app.assert_read_committed();
    insert into app.workflows (hash, workflow, definition, created_at)
    select w.hash, w.workflow, w.definition::jsonb, app.now()
      from jsonb_to_recordset(_workflows) as w(hash text, workflow text, definition text)
     where not exists (select from app.workflows known where known.hash = w.hash)
     order by w.hash
    on conflict do nothing;
    if exists (select from jsonb_to_recordset(_workflows) as w(parts text[]) cross join unnest(w.parts) part
                where not exists (select from app.workflows known where known.hash = part)) then
        raise exception 'the definition of a part is not stored' using errcode = 'AN002';
    end if;
    perform app.lock_key(k.scope, k.key)
       from (select s.scope, s.key from jsonb_to_recordset(_submissions) as s(scope text, key text)
              where s.key is not null order by s.scope, s.key) k;
    for _s in
        select s.*, w.workflow, w.nodes
          from jsonb_to_recordset(_submissions) as s(
                   place integer, head text, tail text, scope text, hash text, parameters jsonb, priority smallint,
                   rerun boolean, correlation_id text, key text, request text, keep interval, start jsonb,
                   submitted_by text, submitter_scope text, labels jsonb, callbacks jsonb,
                   platform text, tick jsonb, trace text)
          join jsonb_to_recordset(_workflows) as w(hash text, workflow text, nodes text[]) using (hash)
         order by sha256(convert_to(s.head || s.tail, 'UTF8')), s.place
    loop
        if coalesce(_s.platform, _s.scope) is distinct from _platform then
            _platform := coalesce(_s.platform, _s.scope);
            _watched := app.has_endpoints(_platform);
        end if;
        return query
        select _s.place, a.job_id, a.state, a.created, a.replayed, a.rights, a.failed_before
          from app.submit(_s.head, _s.tail, _s.scope, _s.workflow, _s.hash, null, _s.nodes, _s.parameters, _s.priority,
                          _s.rerun, _s.correlation_id, _session, _s.key, _s.request, _s.keep, _s.start,
                          _s.submitted_by, _s.labels, _s.callbacks, _watched => _watched,
                          _by_scope => _s.submitter_scope, _platform => _s.platform, _tick => _s.tick,
                          _trace => _s.trace) a;
    end loop;
end;
$$;
