-- Empty pgstac of all that is ours to fill.
select pgstac.delete_collection(c.id) from pgstac.collections c order by c.id
