-- The statements of the catalog.

-- name: change_items
-- Change what readers see of items in our own rows.
select * from app.change_items(
    %(collection)s, %(action)s, %(items)s, %(alone)s, %(job_id)s, %(owner)s, %(actor)s, %(reason)s)

-- name: clear
-- Delete all collections and items from pgstac.
select pgstac.delete_collection(c.id) from pgstac.collections c order by c.id

-- name: collections
-- The published collections.
select c.id from app.collections c order by c.id

-- name: counts
-- How many collections and items are published, and how many pgstac has.
select (select count(*) from app.collections), (select count(*) from app.catalog_items),
       (select count(*) from pgstac.collections), (select count(*) from pgstac.items)

-- name: delete_items
-- Delete items from pgstac.
delete from pgstac.items i where i.collection = %(collection)s and i.id = any(%(ids)s::text[]) returning null

-- name: delete_collection
-- Delete a collection from pgstac.
select pgstac.delete_collection(c.id) from pgstac.collections c where c.id = %(collection)s

-- name: different_collections
-- Collections that are missing, unknown or different in pgstac, compared with our rows.
select coalesce(ours.id, theirs.id),
       case when theirs.id is null then 'missing' when ours.id is null then 'unknown' else 'different' end
  from app.collections ours full join pgstac.collections theirs on theirs.id = ours.id
 where ours.id is null or theirs.id is null or ours.document <> theirs.content
 order by 1

-- name: different_items
-- Items that are missing, unknown or different in pgstac, compared with our rows; pgstac returns no nulls.
select coalesce(ours.collection, theirs.collection), coalesce(ours.id, theirs.id),
       case when theirs.id is null then 'missing' when ours.id is null then 'unknown' else 'different' end
  from app.catalog_items ours
  full join (select i.collection, i.id, pgstac.content_hydrate(i) as document from pgstac.items i) theirs
    on theirs.collection = ours.collection and theirs.id = ours.id
 where ours.id is null or theirs.id is null or jsonb_strip_nulls(ours.document) <> theirs.document
 order by 1, 2

-- name: different_rows
-- Items whose rows are not what the current publications say.
select coalesce(i.collection || '/' || i.id, p.key)
  from app.catalog_items i
  full join (select c.key, c.body, c.job_id, c.at from app.current_publications c where c.kind = 'item') p
    on p.key = i.collection || '/' || i.id
 where (i.document, i.job_id, i.published_at) is distinct from (p.body, p.job_id, p.at)
 order by 1

-- name: ensure_collection
-- Create a collection, or update its fields; returns its document, and whether it changed.
select * from app.ensure_collection(%(document)s, %(said)s, %(alone)s, %(job_id)s, %(actor)s)

-- name: extents
-- Each collection's extent, and the bbox and times of its items.
select c.id, c.document -> 'extent', i.document
  from app.collections c
 cross join lateral (
       select app.item_extent(x.document) as document from app.catalog_items x where x.collection = c.id) i

-- name: find_foreign
-- Which of the given items belong to other owners than that of the job.
select app.find_foreign(%(collection)s, %(job_id)s, %(ids)s::text[])

-- name: find_outdated
-- The items that the release of a job shows of another revision, which its own does not have: collection, id, and its revision.
select split_part(o.key, '/', 1), split_part(o.key, '/', 2), o.revision from app.find_outdated(%(job_id)s) o

-- name: find_provenance
-- The workflow and the parameters of a job, and the versions of the handlers that took part.
select * from app.find_provenance(%(job_id)s)

-- name: fits_partition
-- Whether a collection's partition takes items with these times without a change.
select coalesce(bool_and(m.constraint_dtrange @> lower(t.range) and m.constraint_edtrange @> upper(t.range)), false)
  from (select pgstac.stac_daterange(p) as range from jsonb_array_elements(%(times)s::jsonb) p) t
  left join pgstac.partition_stats s on s.collection = %(collection)s
  left join lateral pgstac.partition_catalog_meta(s.partition) m on true

-- name: has_collection
-- Whether pgstac has a collection with the same document.
select exists (select from pgstac.collections c where c.id = %(document)s::jsonb ->> 'id' and c.content = %(document)s::jsonb)

-- name: hold_attempt
-- Whether the attempt is current; its job stays locked until the end of the transaction (E3, E7).
select app.hold_attempt(%(job_id)s, %(node)s, %(attempt)s, %(lane)s, %(place)s, %(token)s)

-- name: list_extents
-- The boxes and times of the items of a collection.
select app.list_extents(%(collection)s)

-- name: list_files
-- The files of a publication.
select app.list_files(%(publication)s)

-- name: list_published
-- The documents of collections and of their items, as readers see them, with the files of the items.
select p.document, p.files from app.list_published(%(collections)s::text[], %(job_id)s) p

-- name: load_collection
-- Insert or update a collection in pgstac.
select pgstac.upsert_collection(%(document)s::jsonb)

-- name: fit_partition
-- Make the one partition of a collection take items with these times; null where it has one for each year or month.
select pgstac.check_partition(c.id, t.starts, t.ends)
  from pgstac.collections c
 cross join (select tstzrange(min(lower(r)), max(lower(r)), '[]') as starts, tstzrange(min(upper(r)), max(upper(r)), '[]') as ends
               from jsonb_array_elements(%(times)s::jsonb) p cross join lateral pgstac.stac_daterange(p) r) t
 where c.id = %(collection)s and c.partition_trunc is null

-- name: load_items
-- Insert items of a collection with one partition into pgstac, from our rows: as pgstac.upsert_items does, in a
-- fraction of its time. An item is stored whole unless its collection has item_assets, whose values pgstac leaves out.
insert into pgstac.items (id, geometry, collection, datetime, end_datetime, content)
select d.document ->> 'id', pgstac.stac_geom(d.document), c.id, lower(r), upper(r),
       case when coalesce(c.base_item -> 'assets', 'null') = 'null' then
                jsonb_strip_nulls(d.document - '{id,geometry,collection,type,pgstac:base_item}'::text[])
            else pgstac.content_slim(d.document) end
  from app.list_documents(%(collection)s, %(ids)s::text[]) d
  join pgstac.collections c on c.id = %(collection)s
 cross join lateral pgstac.stac_daterange(d.document) r
returning null

-- name: load_items_of_times
-- Insert items into pgstac, or replace them, in partitions by their times.
select pgstac.upsert_items(coalesce(jsonb_agg(d.document), '[]')) from app.list_documents(%(collection)s, %(ids)s::text[]) d

-- name: missing
-- Which of the given items of a collection are missing in pgstac.
select x.id from unnest(%(ids)s::text[]) x(id)
 where not exists (select from pgstac.items i where i.collection = %(collection)s and i.id = x.id)

-- name: rebuild_items
-- Make our own rows of items from the current publications again.
select app.rebuild_items()

-- name: refill_collections
-- Insert every published collection into pgstac, from our rows.
select pgstac.upsert_collection(c.document) from app.collections c order by c.id

-- name: refill_items
-- Insert the next items of a collection, by id, into pgstac, from our rows; returns the last id, or null at the end.
with next as materialized (
    select i.id, i.document from app.catalog_items i
     where i.collection = %(collection)s and i.id > %(after)s order by i.id limit %(most)s),
load as materialized (
    select pgstac.upsert_items(jsonb_agg(n.document)) from next n having count(*) > 0)
select max(n.id) from next n left join load on true

-- name: remove_collection
-- Remove a collection without items from our own rows; returns whether there was one.
select app.remove_collection(%(collection)s, %(actor)s, %(reason)s)

-- name: replace_extent
-- Replace the extent of a collection; returns its document.
select app.replace_extent(%(collection)s, %(extent)s)
