-- Put a collection into pgstac, or change it there.
select pgstac.upsert_collection(%(document)s::jsonb)
