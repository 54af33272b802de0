-- Set who may read a release once it is published: what is public needs no key, where the operator allows that (S1). False:
-- there is no such release. Keys are locked before the release, as a publication does.
create function app.clear_release(
    _platform text, _release_id text, _clearance app.clearance, _actor text, _reason text, _correlation_id text
) returns boolean language plpgsql as $$
declare
    _x record;
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter(_platform);
    perform from app.publication_keys k
      where k.kind = 'item' and k.key in (select r.key from app.release_keys(_release_id) r) order by k.key for update;
    update app.releases x set clearance = _clearance where x.release_id = _release_id returning x.* into _x;
    if not found then
        return false;
    end if;
    update app.publication_keys k set public = _clearance = 'public'
     where k.kind = 'item' and k.key in (select r.key from app.release_keys(_release_id) r) and k.owner = _x.platform;
    perform app.record(_x.platform, _actor, 'release.cleared', _x.asset_id, _release_id, null, _reason,
                       jsonb_build_object('clearance', _clearance), _correlation_id);
    return true;
end;
$$;
