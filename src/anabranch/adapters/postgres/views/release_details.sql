-- Releases with their newest revision, and what readers see of them: number is that of the current publication of the first
-- item that is shown, null while nothing is. items: all that are shown. latest: the newest release of its asset that is shown.
create view app.release_details as
select x.release_id, x.asset_id, x.platform, x.ordinal, x.version, x.data_type, x.collection, x.item_id, x.clearance, x.made_at,
       x.number as cursor, a.refs, a.title, a.description, a.tags, a.deleted_at is not null as deleted,
       v.revision, v.processing_status, v.approval_status, v.approval_required, v.submitted_by, v.decided_by, v.decided_at,
       v.reason, v.job_id, v.content_hash, v.artifacts, v.error, v.made_at as revised_at, v.finished_at,
       s.number, s.publication, s.revision as shown_revision,
       (select jsonb_agg(jsonb_build_object(
                   'collection', split_part(t.key, '/', 1), 'id', split_part(t.key, '/', 2), 'number', t.number,
                   'revision', t.revision,
                   'layer', (select min(l.name) from app.published_tables l where l.publication = t.publication)) order by t.key)
          from app.shown_items(x.release_id) t) as items,
       s.number is not null and not exists (
           select from app.releases o cross join lateral app.shown_publication(o.release_id) n
            where o.asset_id = x.asset_id and o.ordinal > x.ordinal) as latest
  from app.releases x
  join app.assets a using (asset_id)
 cross join lateral (select * from app.revisions v where v.release_id = x.release_id order by v.revision desc limit 1) v
  left join lateral app.shown_publication(x.release_id) s on true;
