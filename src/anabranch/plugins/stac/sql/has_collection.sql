-- Whether pgstac has a collection with the same document.
select exists (select from pgstac.collections c where c.id = %(document)s::jsonb ->> 'id' and c.content = %(document)s::jsonb)
