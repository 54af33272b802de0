-- Whether a release of an asset, other than one, is being processed or reviewed (P3).
create function app.is_unresolved(_asset_id text, _but_release text) returns boolean language sql stable as $$
    select exists (
        select from app.releases x
         cross join lateral (
               select v.* from app.revisions v where v.release_id = x.release_id order by v.revision desc limit 1) v
         where x.asset_id = _asset_id and x.release_id is distinct from _but_release
           and v.approval_status = 'pending_review' and v.processing_status <> 'failed');
$$;
