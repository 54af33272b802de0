-- Write a line of the audit (P7). What happens to a release is announced, too, in the order of its asset (P9).
create function app.record(
    _platform text, _actor text, _action text, _asset_id text, _release_id text, _revision integer, _reason text, _data jsonb,
    _correlation_id text
) returns void language plpgsql as $$
begin
    insert into app.audit (at, platform, actor, action, asset_id, release_id, revision, reason, data, correlation_id)
    values (app.now(), _platform, _actor, _action, _asset_id, _release_id, _revision, _reason, coalesce(_data, '{}'),
            _correlation_id);
    if _action like 'release.%' then
        perform app.announce(
            _platform, _asset_id, _action,
            jsonb_strip_nulls(jsonb_build_object(
                'asset_id', _asset_id, 'release_id', _release_id, 'revision', _revision, 'refs', a.refs,
                'release_version', x.version,
                'job_id', v.job_id, 'processing_status', v.processing_status, 'approval_status', v.approval_status,
                'actor', _actor, 'reason', _reason, 'error', v.error,
                'result_url', '/api/platform/status/' || _release_id)),
            _correlation_id, case when v.job_id is null then '{}' else array[v.job_id] end)
           from app.releases x
           join app.assets a using (asset_id)
           left join lateral (
                select * from app.revisions v
                 where v.release_id = x.release_id and (_revision is null or v.revision = _revision)
                 order by v.revision desc limit 1) v on true
          where x.release_id = _release_id;
    end if;
end;
$$;
