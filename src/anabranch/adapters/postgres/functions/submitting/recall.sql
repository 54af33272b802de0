-- The answer that was given under a key; no row: none was, or it has expired. The job is null where the key belongs to
-- another request (E15).
create function app.recall(_scope text, _key text, _request text)
returns table (job_id text, state app.job_state, created boolean) language plpgsql stable as $$
begin
    return query
    select case when k.request = _request then k.job_id end, k.state, k.created
      from app.idempotency_keys k
     where k.scope = _scope and k.key = _key and k.expires_at > app.now();
end;
$$;
