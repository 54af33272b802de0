-- What a submission to an asset comes to, and the newest revision of its release: `create` a release; make the `next` revision;
-- `same`: it was submitted before; or what is against it: `deleted`, `unresolved` (another release waits for its end),
-- `different` (the release is there, and was made otherwise), `approved`, `processing`. The caller has locked the asset.
create function app.judge_submission(
    _asset_id text, _release_id text, _order_hash text, _overwrite boolean, _reprocess boolean
) returns table (verdict text, newest integer, job_id text) language sql stable as $$
    with facts as (
        select exists (select from app.assets a where a.asset_id = _asset_id and a.deleted_at is not null) as deleted,
               app.is_unresolved(_asset_id, _release_id) as unresolved)
    select case
           when f.deleted then 'deleted'
           when v.revision is null then case when f.unresolved then 'unresolved' else 'create' end
           when v.open and _overwrite and not _reprocess then 'next'
           when v.open and v.order_hash <> _order_hash
                then case when v.processing_status = 'completed' then 'different' else 'processing' end
           when v.open then 'same'
           when v.approval_status = 'approved' and v.processing_status = 'completed' and not _reprocess then case
                when _overwrite then 'approved'
                when v.order_hash = _order_hash then 'same'
                else 'different' end
           when f.unresolved then 'unresolved'
           else 'next' end,
           v.revision, v.job_id
      from facts f
      left join lateral (
           select r.*, r.approval_status = 'pending_review' and r.processing_status <> 'failed' as open
             from app.revisions r where r.release_id = _release_id order by r.revision desc limit 1) v on true;
$$;
