-- Set who may read a release once it is published: what is public needs no key, where the operator allows that (S1). False:
-- there is no such release.
create function app.clear_release(
    _platform text, _release_id text, _clearance app.clearance, _actor text, _reason text, _correlation_id text
) returns boolean language plpgsql as $$
declare
    _x record;
begin
    perform app.assert_read_committed();
    perform app.see(_platform);
    update app.releases x set clearance = _clearance where x.release_id = _release_id returning x.* into _x;
    if not found then
        return false;
    end if;
    update app.publication_keys k set public = _clearance = 'public'
     where k.kind = 'item' and k.key = _x.collection || '/' || _x.item_id and k.owner = _x.platform;
    update app.publication_keys k set public = _clearance = 'public'
     where k.kind = 'item' and k.key = _x.collection || '/' || _x.item_id;
    perform app.record(_x.platform, _actor, 'release.cleared', _x.asset_id, _release_id, null, _reason,
                       jsonb_build_object('clearance', _clearance), _correlation_id);
    return true;
end;
$$;
