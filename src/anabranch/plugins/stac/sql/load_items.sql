-- Insert items into pgstac, or replace them.
select pgstac.upsert_items(%(items)s::jsonb)
