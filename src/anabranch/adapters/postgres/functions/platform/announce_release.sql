-- Announce what happened to a release, or to a revision of it, with the callbacks of the revision's job; with _only, to these
-- endpoints alone. Without a revision, it is the newest.
create function app.announce_release(
    _release_id text, _revision integer, _action text, _actor text, _reason text, _correlation_id text,
    _only uuid[] default null
) returns void language plpgsql as $$
begin
    perform app.announce(
        x.platform, x.asset_id, _action,
        jsonb_strip_nulls(jsonb_build_object(
            'asset_id', x.asset_id, 'release_id', _release_id, 'revision', _revision, 'refs', a.refs,
            'release_version', x.version,
            'job_id', v.job_id, 'processing_status', v.processing_status, 'approval_status', v.approval_status,
            'actor', _actor, 'reason', _reason, 'error', v.error,
            'result_url', '/api/platform/status/' || _release_id)),
        _correlation_id, case when v.job_id is null then '{}' else array[v.job_id] end, _only)
       from app.releases x
       join app.assets a using (asset_id)
       left join lateral (
            select * from app.revisions v
             where v.release_id = x.release_id and (_revision is null or v.revision = _revision)
             order by v.revision desc limit 1) v on true
      where x.release_id = _release_id;
end;
$$;
