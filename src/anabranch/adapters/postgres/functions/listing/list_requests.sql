-- Requests that are visible, the newest first.
create function app.list_requests(_platform text, _request_id uuid, _release_id text, _before bigint, _limit integer)
returns table (request_id uuid, platform text, asset_id text, release_id text, revision integer, job_id text, body jsonb,
               made_by text, made_at timestamptz, cursor bigint)
language plpgsql stable
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
begin
    perform app.set_platform_filter(_platform);
    return query
    select q.request_id, q.platform, q.asset_id, q.release_id, q.revision, v.job_id, q.body, q.made_by, q.made_at, q.number
      from (select r.* from app.requests r
             where (_platform = '*' or r.platform = _platform)
               and (_before is null or r.number < _before) and (_request_id is null or r.request_id = _request_id)
               and (_release_id is null or r.release_id = _release_id)
             order by r.number desc limit _limit) q
      join app.revisions v on v.release_id = q.release_id and v.revision = q.revision
     order by q.number desc;
end;
$$;
