-- Whether a publication shows content of a revision that was revoked, whatever its item shows now (P6).
create function app.is_revoked(_source uuid) returns boolean language plpgsql stable as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _revoked boolean;
begin
    perform app.set_platform_filter('*');
    select v.approval_status = 'revoked' into _revoked
      from app.published_revisions r join app.revisions v on v.release_id = r.release_id and v.revision = r.revision
     where r.publication = _source;
    perform app.set_platform_filter(_before);
    return coalesce(_revoked, false);
end;
$$;
