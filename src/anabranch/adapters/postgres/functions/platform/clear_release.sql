-- Set who may read a release once it is published. False: there is no such release.
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
    perform app.record(_x.platform, _actor, 'release.cleared', _x.asset_id, _release_id, null, _reason,
                       jsonb_build_object('clearance', _clearance), _correlation_id);
    return true;
end;
$$;
