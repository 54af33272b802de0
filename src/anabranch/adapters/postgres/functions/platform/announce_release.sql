-- Announce what happened to a release, or to a revision of it, also to the callbacks of all its orders; with _only, to these
-- endpoints alone. Without a revision, it is the newest. _items: [{item, number}, …], those that it happened to. What is said
-- of an asset is written one after the other, and each says how it stands then (P9); this lock is taken last.
create function app.announce_release(
    _release_id text, _revision integer, _action text, _actor text, _reason text, _correlation_id text,
    _only uuid[] default null, _items jsonb default null
) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('anabranch messages of ' || x.asset_id, 0))
       from app.releases x where x.release_id = _release_id;
    perform app.announce(
        x.platform, x.asset_id, _action,
        jsonb_strip_nulls(jsonb_build_object(
            'asset_id', x.asset_id, 'release_id', _release_id, 'revision', _revision, 'refs', a.refs,
            'release_version', x.version,
            'job_id', v.job_id, 'processing_status', v.processing_status, 'approval_status', v.approval_status,
            'clearance', x.clearance, 'actor', _actor, 'reason', _reason, 'error', v.error,
            'items', _items,
            'result_url', '/api/platform/status/' || _release_id)),
        _correlation_id,
        array(select o.job_id from app.revisions o where o.release_id = _release_id and o.job_id is not null), _only)
       from app.releases x
       join app.assets a using (asset_id)
       left join lateral (
            select * from app.revisions v
             where v.release_id = x.release_id and (_revision is null or v.revision = _revision)
             order by v.revision desc limit 1) v on true
      where x.release_id = _release_id;
end;
$$;
