-- Which of the given items of a collection are missing in pgstac.
select x.id from unnest(%(ids)s::text[]) x(id)
 where not exists (select from pgstac.items i where i.collection = %(collection)s and i.id = x.id)
