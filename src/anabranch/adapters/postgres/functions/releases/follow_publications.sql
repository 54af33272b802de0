-- A release decides what its items show: publications remember the revision that made their content, and what
-- app.refuse_unapproved_revisions, app.refuse_moved_releases and app.refuse_unreviewed_jobs are against is not shown (P5, P6).
-- Who may read it follows from the clearance of the release. What happened is in the audit (P7). Its plans are for single
-- items, however many the first publication of a session has.
create function app.follow_publications() returns trigger language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _made constant uuid[] := array(select m.id from made m where m.kind = 'item');
begin
    perform app.set_platform_filter('*');
    insert into app.published_revisions (publication, release_id, revision, platform)
    select p.id, v.release_id, v.revision, v.platform
      from (select distinct m.job_id from made m where m.kind = 'item' and m.source = m.id) j
     cross join lateral app.find_revision(j.job_id) v
      join made p on p.kind = 'item' and p.job_id = j.job_id and p.source = p.id;
    perform from app.releases x
      where x.release_id in (select r.release_id from made p join app.published_revisions r on r.publication = p.source)
      order by x.release_id for share;  -- so that its clearance and its approval are those that are committed
    perform app.refuse_unapproved_revisions(_made);
    perform app.refuse_moved_releases(_made);
    perform app.refuse_unreviewed_jobs(_made);
    update app.publication_keys k set public = x.clearance = 'public'
      from made p
      join app.published_revisions r on r.publication = p.source
      join app.releases x on x.release_id = r.release_id
     where k.kind = p.kind and k.key = p.key and k.owner = x.platform and k.public <> (x.clearance = 'public');
    perform app.record_publications(_made);
    perform app.set_platform_filter(_before);
    return null;
end;
$$;

create trigger follow_publications after insert on app.publications
    referencing new table as made for each statement execute function app.follow_publications();
