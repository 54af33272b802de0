-- What a submission to an asset comes to, and the newest revision of its release: `create` a release; make the `next` revision;
-- `same`: it was submitted before; or what is against it: `deleted`, `unresolved` (another release waits for its end),
-- `different` (the release is there, and was made otherwise), `approved`, `processing`. The caller has locked the asset.
create function app.weigh_submission(
    _asset_id text, _release_id text, _order_hash text, _overwrite boolean, _reprocess boolean
) returns table (verdict text, newest integer, job_id text) language sql stable as $$
    with last as (
        select x.release_id, r.* from app.releases x
         cross join lateral (
               select v.revision, v.order_hash, v.processing_status, v.approval_status, v.job_id from app.revisions v
                where v.release_id = x.release_id order by v.revision desc limit 1) r
         where x.asset_id = _asset_id),
    facts as (
        select exists (select from app.assets a where a.asset_id = _asset_id and a.deleted_at is not null) as deleted,
               exists (select from last l where l.release_id <> _release_id and l.approval_status = 'pending_review'
                          and l.processing_status <> 'failed') as unresolved)
    select case
           when f.deleted then 'deleted'
           when o.release_id is null and f.unresolved then 'unresolved'
           when o.release_id is null then 'create'
           when o.open and _overwrite and not _reprocess then 'next'
           when o.open and o.order_hash <> _order_hash
                then case when o.processing_status = 'completed' then 'different' else 'processing' end
           when o.open then 'same'
           when o.approval_status = 'approved' and _reprocess then 'next'
           when o.approval_status = 'approved' and _overwrite then 'approved'
           when o.approval_status = 'approved' and o.order_hash = _order_hash then 'same'
           when o.approval_status = 'approved' then 'different'
           when f.unresolved then 'unresolved'
           else 'next' end,
           o.revision, o.job_id
      from facts f
      left join lateral (
           select l.*, l.approval_status = 'pending_review' and l.processing_status <> 'failed' as open
             from last l where l.release_id = _release_id) o on true;
$$;
