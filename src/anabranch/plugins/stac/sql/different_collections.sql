-- Collections that are missing, unknown or different in pgstac, compared with our rows.
select coalesce(ours.id, theirs.id),
       case when theirs.id is null then 'missing' when ours.id is null then 'unknown' else 'different' end
  from app.collections ours full join pgstac.collections theirs on theirs.id = ours.id
 where ours.id is null or theirs.id is null or ours.document <> theirs.content
 order by 1
