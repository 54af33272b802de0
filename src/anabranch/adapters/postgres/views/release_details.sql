-- Releases with their newest revision, and the one that readers see: number is that of the current publication of the item,
-- null while nothing is shown. latest: the newest release of its asset that is shown.
create view app.release_details as
select x.release_id, x.asset_id, x.platform, x.ordinal, x.version, x.data_type, x.collection, x.item_id, x.clearance, x.made_at,
       x.number as cursor, a.refs, a.title, a.description, a.tags, a.deleted_at is not null as deleted,
       v.revision, v.processing_status, v.approval_status, v.approval_required, v.submitted_by, v.decided_by, v.decided_at,
       v.reason, v.job_id, v.content_hash, v.artifacts, v.error, v.made_at as revised_at, v.finished_at,
       s.number, s.publication, s.revision as shown_revision,
       s.number is not null and x.ordinal = (
           select max(o.ordinal) from app.releases o
             join app.publication_keys k on k.kind = 'item' and k.key = o.collection || '/' || o.item_id
             join app.publications p on p.id = k.current and p.action <> 'withdraw'
            where o.asset_id = x.asset_id) as latest
  from app.releases x
  join app.assets a using (asset_id)
 cross join lateral (select * from app.revisions v where v.release_id = x.release_id order by v.revision desc limit 1) v
  left join lateral (
       select p.number, p.source as publication, r.revision
         from app.publication_keys k
         join app.publications p on p.id = k.current and p.action <> 'withdraw'
         join app.publications c on c.id = p.source
         left join lateral (
              select r.revision from app.job_line(c.job_id) l join app.revisions r on r.job_id = l.job_id limit 1) r on true
        where k.kind = 'item' and k.key = x.collection || '/' || x.item_id) s on true;
