-- Put items into pgstac, or in place of what it has of them.
select pgstac.upsert_items(%(items)s::jsonb)
