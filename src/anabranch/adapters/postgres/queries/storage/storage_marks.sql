-- The marks of the areas of storage, and where the process found them that noted them.
select m.area, m.mark, m.url from app.storage_marks m;
