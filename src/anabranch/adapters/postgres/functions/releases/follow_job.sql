-- Let a revision follow its job. Processing is completed when the job waits at a gate, or has ended well; then a revision that
-- nobody has to approve is approved. A review whose time is up leaves the revision expired; a job that is cancelled, or fails
-- after its approval, leaves it failed. What the job published becomes the artifacts of the revision. A job is tried again
-- only while its revision is the newest one and is not decided, or was approved and not published: else AN032. Called by
-- triggers only.
create function app.follow_job(_job app.jobs) returns void language plpgsql as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _r record;
    _status app.processing_status;
    _approval app.approval_status;
    _made record;
begin
    perform app.set_platform_filter('*');
    select v.release_id, v.revision, v.platform, v.processing_status, v.approval_status, v.approval_required, x.asset_id,
           v.revision < (select max(n.revision) from app.revisions n where n.release_id = v.release_id) as replaced
      into _r
      from app.revisions v join app.releases x using (release_id) where v.job_id = _job.job_id for no key update of v;
    if found then
        if _job.state = 'pending' and _r.processing_status in ('completed', 'failed') then
            perform app.refuse_retry(_r.asset_id, _r.release_id, _r.revision, _r.processing_status, _r.approval_status);
        end if;
        _status := case
            when _job.state = 'completed' then 'completed'
            when _job.state in ('failed', 'cancelled') then case
                 when _r.approval_status in ('rejected', 'revoked', 'expired') and _r.processing_status = 'completed'
                      then 'completed'
                 when _job.state = 'failed' and _r.approval_status = 'pending_review' and _r.processing_status = 'completed'
                      then 'completed'
                 else 'failed' end
            when _r.approval_status <> 'pending_review' then 'completed'
            when _job.state = 'waiting' and app.find_gate(_job.job_id) is not null then 'completed'
            when _job.state = 'pending' then 'queued'
            else 'processing' end;
        _approval := case
            when _r.approval_status <> 'pending_review' then _r.approval_status
            when _job.state = 'completed' and not _r.approval_required then 'approved'
            when _job.state = 'failed' and _status = 'completed' then 'expired'
            else 'pending_review' end;
        select a.* into _made
          from app.list_artifacts(_r.release_id, _r.revision) a where _job.state = 'completed';
        update app.revisions v
           set processing_status = _status, approval_status = _approval, error = _job.error,
               decided_by = case when _approval <> _r.approval_status then 'policy' else v.decided_by end,
               decided_at = case when _approval <> _r.approval_status then app.now() else v.decided_at end,
               content_hash = case when _job.state = 'completed' then _made.content_hash else v.content_hash end,
               artifacts = case when _job.state = 'completed' then _made.artifacts else v.artifacts end,
               finished_at = _job.finished_at
         where v.release_id = _r.release_id and v.revision = _r.revision;
        if (_status, _approval) is distinct from (_r.processing_status, _r.approval_status) then
            perform app.record(
                _r.platform, 'job ' || _job.job_id,
                case when _r.replaced then 'release.replaced'
                     when _r.approval_status = 'revoked' then 'revision.moved'
                     when _approval <> _r.approval_status then 'release.' || _approval
                     when _status = 'completed' then 'release.processed'
                     when _status = 'failed' then 'release.failed'
                     else 'revision.moved' end,
                _r.asset_id, _r.release_id, _r.revision, _job.error ->> 'message',
                jsonb_build_object('processing_status', _status, 'approval_status', _approval), _job.correlation_id);
        end if;
    end if;
    perform app.set_platform_filter(_before);
end;
$$;
