-- Write a line of the audit (P7). What happens to a release is announced, too, in the order of its asset (P9), with the items
-- that it happened to.
create function app.record(
    _platform text, _actor text, _action text, _asset_id text, _release_id text, _revision integer, _reason text, _data jsonb,
    _correlation_id text
) returns void language plpgsql as $$
begin
    insert into app.audit (at, platform, actor, action, asset_id, release_id, revision, reason, data, correlation_id)
    values (app.now(), _platform, _actor, _action, _asset_id, _release_id, _revision, _reason, coalesce(_data, '{}'),
            _correlation_id);
    if _action like 'release.%' then
        perform app.announce_release(_release_id, _revision, _action, _actor, _reason, _correlation_id,
                                     _items => _data -> 'items');
    end if;
end;
$$;
