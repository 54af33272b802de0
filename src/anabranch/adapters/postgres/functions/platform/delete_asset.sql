-- Mark an asset as deleted, or restore it; nothing of it is removed. verdict: `missing`, `shown` (a release of it is
-- published: unpublish that first), `unresolved` (one is being processed or reviewed), `same` or `done`.
create function app.delete_asset(
    _platform text, _asset_id text, _deleted boolean, _actor text, _reason text, _correlation_id text
) returns text language plpgsql as $$
declare
    _a record;
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter(_platform);
    select a.* into _a from app.assets a where a.asset_id = _asset_id for update;
    if not found then
        return 'missing';
    end if;
    -- A publication locks its release: none of them is under way from here on.
    perform from app.releases x where x.asset_id = _asset_id order by x.release_id for no key update;
    if (_a.deleted_at is not null) = _deleted then
        return 'same';
    elsif _deleted and exists (select from app.release_details r where r.asset_id = _asset_id and r.number is not null) then
        return 'shown';
    elsif _deleted and app.is_unresolved(_asset_id, null) then
        return 'unresolved';
    end if;
    update app.assets a set deleted_at = case when _deleted then app.now() end where a.asset_id = _asset_id;
    perform app.record(_a.platform, _actor, case when _deleted then 'asset.deleted' else 'asset.restored' end, _asset_id, null, null,
                       _reason, null, _correlation_id);
    return 'done';
end;
$$;
