-- How many collections and items are published, and how many pgstac has.
select (select count(*) from app.collections), (select count(*) from app.catalog_items),
       (select count(*) from pgstac.collections), (select count(*) from pgstac.items)
