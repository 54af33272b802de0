-- Keep the answer to a request under its key for a while (E15). The caller holds the key's lock, and has found no answer.
create function app.keep_answer(
    _scope text, _key text, _request text, _keep interval, _job_id text, _state app.job_state, _created boolean
) returns void language plpgsql as $$
begin
    insert into app.idempotency_keys as k (scope, key, request, job_id, state, created, expires_at)
    values (_scope, _key, _request, _job_id, _state, _created, app.now() + _keep)
    on conflict on constraint idempotency_keys_pkey do update  -- it has expired, or it would have been recalled
       set request = excluded.request, job_id = excluded.job_id, state = excluded.state,
           created = excluded.created, expires_at = excluded.expires_at;
end;
$$;
