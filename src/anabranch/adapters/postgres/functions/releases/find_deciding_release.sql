-- The release whose decisions answer the gates of a job (P4); null where people answer them.
create function app.find_deciding_release(_job_id text) returns text language plpgsql stable as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _release text;
begin
    perform app.set_platform_filter('*');
    select v.release_id into _release from app.revisions v where v.job_id = _job_id and v.approval_required;
    perform app.set_platform_filter(_before);
    return _release;
end;
$$;
