-- Items that are missing, unknown or different in pgstac, compared with our rows; pgstac returns no nulls.
select coalesce(ours.collection, theirs.collection), coalesce(ours.id, theirs.id),
       case when theirs.id is null then 'missing' when ours.id is null then 'unknown' else 'different' end
  from app.catalog_items ours
  full join (select i.collection, i.id, pgstac.content_hydrate(i) as document from pgstac.items i) theirs
    on theirs.collection = ours.collection and theirs.id = ours.id
 where ours.id is null or theirs.id is null or jsonb_strip_nulls(ours.document) <> theirs.document
 order by 1, 2
