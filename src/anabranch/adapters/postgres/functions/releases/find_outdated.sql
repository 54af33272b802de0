-- The items, as collection/item, that a release shows of other revisions than that of a job, and that this one has not
-- published: they are withdrawn with its publication, so that no publication leaves two revisions shown (P5). None while the
-- release shows nothing of the job's revision: before that publishes, or after a rollback.
create function app.find_outdated(_job_id text) returns table (key text, revision integer) language plpgsql stable as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _made record;
begin
    select r.* into _made from app.find_revision(_job_id) r;
    if not found then
        return;
    end if;
    perform app.set_platform_filter('*');
    return query
    select s.key, _made.revision
      from app.shown_items(_made.release_id) s
     where exists (select from app.shown_items(_made.release_id) m where m.revision = _made.revision)
       and s.key not in (
           select p.key from app.published_revisions r join app.publications p on p.id = r.publication
            where r.release_id = _made.release_id and r.revision = _made.revision)
     order by s.key;
    perform app.set_platform_filter(_before);
end;
$$;
