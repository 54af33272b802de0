-- Revoke a key for good; a second time changes nothing. False: there is no such key.
create function app.revoke_key(_key_id text, _revoked_by text) returns boolean language plpgsql as $$
begin
    update app.keys set revoked_at = app.now(), revoked_by = _revoked_by where key_id = _key_id and revoked_at is null;
    return exists (select from app.keys where key_id = _key_id);
end;
$$;
