-- Whether pgstac has a collection as it stands in our rows.
select exists (select from pgstac.collections c where c.id = %(document)s::jsonb ->> 'id' and c.content = %(document)s::jsonb)
