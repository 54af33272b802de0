-- Delete all collections and items from pgstac.
select pgstac.delete_collection(c.id) from pgstac.collections c order by c.id
