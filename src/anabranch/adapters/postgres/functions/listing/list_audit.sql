-- Lines of the audit that are visible, the newest first.
create function app.list_audit(_platform text, _asset_id text, _before bigint, _limit integer)
returns table (number bigint, at timestamptz, platform text, actor text, action text, asset_id text, release_id text,
               revision integer, reason text, data jsonb, correlation_id text)
language plpgsql stable
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    perform app.set_platform_filter(_platform);
    return query
    select a.* from app.audit a
     where (_platform = '*' or a.platform = _platform)
       and (_before is null or a.number < _before) and (_asset_id is null or a.asset_id = _asset_id)
     order by a.number desc limit _limit;
end;
$$;
