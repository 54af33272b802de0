-- Insert or update a collection in pgstac.
select pgstac.upsert_collection(%(document)s::jsonb)
