-- The answer that was given to a work order under a key, as app.submit_release returns it; no row: none was, or it has
-- expired. The verdict is `taken` where the key belongs to another request (E15).
create function app.recall_release(_scope text, _key text, _request text)
returns table (verdict text, request_id uuid, revision integer, job_id text, state app.job_state)
language plpgsql stable as $$
begin
    return query
    select case when k.job_id is null then 'taken' when not k.created then 'same'
                when r.revision = 1 then 'create' else 'next' end,
           q.request_id, r.revision, k.job_id, k.state
      from app.recall(_scope, _key, _request) k
      left join app.revisions r on r.job_id = k.job_id
      left join lateral (select q.request_id from app.requests q
                          where q.release_id = r.release_id and q.revision = r.revision
                          order by q.number limit 1) q on true;
end;
$$;
