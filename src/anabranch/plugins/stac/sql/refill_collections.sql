-- Put every published collection into pgstac, as our rows have it.
select pgstac.upsert_collection(c.document) from app.collections c order by c.id
