-- Insert every published collection into pgstac, from our rows.
select pgstac.upsert_collection(c.document) from app.collections c order by c.id
