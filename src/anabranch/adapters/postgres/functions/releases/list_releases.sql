-- Releases that are in sight, the newest first: of an asset, a status or references, or those that wait for a review.
create function app.list_releases(
    _platform text, _wanted jsonb, _before bigint, _limit integer
) returns table (release jsonb) language plpgsql stable as $$
declare
    _w record;
begin
    perform app.see(_platform);
    select w.* into _w from jsonb_to_record(_wanted) w(
        release_id text, asset_id text, job_id text, request_id uuid, refs jsonb, processing_status app.processing_status,
        approval_status app.approval_status, review boolean, latest boolean);
    return query
    select to_jsonb(d) from app.release_details d
     where (_before is null or d.cursor < _before)
       and (_w.release_id is null or d.release_id = _w.release_id)
       and (_w.asset_id is null or d.asset_id = _w.asset_id)
       and (_w.refs is null or d.refs @> _w.refs)
       and (_w.job_id is null or d.release_id = (select v.release_id from app.revisions v where v.job_id = _w.job_id))
       and (_w.request_id is null
            or d.release_id = (select q.release_id from app.requests q where q.request_id = _w.request_id))
       and (_w.processing_status is null or d.processing_status = _w.processing_status)
       and (_w.approval_status is null or d.approval_status = _w.approval_status)
       and (_w.review is null or d.processing_status = 'completed' and d.approval_status = 'pending_review')
       and (_w.latest is null or d.latest)
     order by d.cursor desc limit _limit;
end;
$$;
