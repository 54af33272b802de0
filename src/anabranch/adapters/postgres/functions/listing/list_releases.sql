-- Releases that are visible, the newest first: of an asset, a status or references, or those that wait for a review. Those
-- that failed are no `pending_review`: nobody can decide them. A page costs what it shows: references and statuses that fit
-- few releases begin with those; ones that fit many are met soon on the way down the numbers. Every call has a plan for its
-- arguments, because those that are absent are no part of it.
create function app.list_releases(
    _platform text, _wanted jsonb, _before bigint, _limit integer
) returns table (release jsonb) language plpgsql stable
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_material = off set enable_memoize = off set jit = off as $$
declare
    _w record;
    _few text[];
begin
    perform app.set_platform_filter(_platform);
    select w.* into _w from jsonb_to_record(_wanted) w(
        release_id text, asset_id text, job_id text, request_id uuid, refs jsonb, processing_status app.processing_status,
        approval_status app.approval_status, review boolean, latest boolean);
    if coalesce(_w.release_id, _w.asset_id, _w.job_id, _w.request_id::text) is null then
        if _w.refs is not null then
            _few := app.find_referenced(_platform, _w.refs);
        end if;
        if _few is null and (_w.review or _w.processing_status is not null or _w.approval_status is not null) then
            _few := app.find_in_status(
                _platform, case when _w.review then 'completed' else _w.processing_status end,
                case when _w.review then 'pending_review' else _w.approval_status end);
        end if;
    end if;
    return query
    select to_jsonb(d)
      from (select x.number
              from app.releases x
             cross join lateral (
                   select v.processing_status, v.approval_status from app.revisions v
                    where v.release_id = x.release_id order by v.revision desc limit 1) v
             where (_platform = '*' or x.platform = _platform)
               and (_before is null or x.number < _before)
               and (_few is null or x.release_id = any(_few))
               and (_w.release_id is null or x.release_id = _w.release_id)
               and (_w.asset_id is null or x.asset_id = _w.asset_id)
               and (_w.job_id is null
                    or x.release_id = (select o.release_id from app.revisions o where o.job_id = _w.job_id))
               and (_w.request_id is null
                    or x.release_id = (select q.release_id from app.requests q where q.request_id = _w.request_id))
               and (_w.refs is null
                    or exists (select from app.assets a join app.platforms p on p.id = a.platform
                                where a.asset_id = x.asset_id
                                  and a.refs || jsonb_build_object(coalesce(p.version_ref, ''), x.version) @> _w.refs))
               and (_w.processing_status is null or v.processing_status = _w.processing_status)
               and (_w.approval_status is null
                    or v.approval_status = _w.approval_status
                       and (v.approval_status <> 'pending_review' or v.processing_status <> 'failed'))
               and (_w.review is null or v.processing_status = 'completed' and v.approval_status = 'pending_review')
               and (_w.latest is null or exists (select from app.release_details l where l.cursor = x.number and l.latest))
             order by x.number desc limit _limit) p
      join app.release_details d on d.cursor = p.number
     order by d.cursor desc;
end;
$$;
