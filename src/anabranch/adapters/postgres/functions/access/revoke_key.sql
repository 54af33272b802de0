-- Revoke a key for good; a second time changes nothing. False: there is no such key.
create function app.revoke_key(_key_id text, _revoked_by text, _correlation_id text default null) returns boolean
language plpgsql as $$
declare
    _platform text;
begin
    update app.keys set revoked_at = app.now(), revoked_by = _revoked_by where key_id = _key_id and revoked_at is null
    returning platform into _platform;
    if found then
        perform app.audit_change(_platform, _revoked_by, 'key.revoked', jsonb_build_object('key', _key_id), _correlation_id);
    end if;
    return exists (select from app.keys where key_id = _key_id);
end;
$$;
