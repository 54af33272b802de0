-- The revision of a release that a job publishes for, by itself or as a part of other jobs; no row where there is none.
create function app.find_revision(_job_id text) returns table (release_id text, revision integer, platform text)
language plpgsql stable as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
begin
    perform app.set_platform_filter('*');
    return query
    select r.release_id, r.revision, r.platform from app.job_line(_job_id) l join app.revisions r on r.job_id = l.job_id limit 1;
    perform app.set_platform_filter(_before);
end;
$$;
