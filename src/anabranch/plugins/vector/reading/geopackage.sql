-- name: find_contents
-- Whether the file is a GeoPackage.
select count(*) from sqlite_schema where lower(name) = 'gpkg_contents' and type = 'table';

-- name: list_tables
-- What a GeoPackage says that it holds, with the definition of each table or view.
select contents.table_name, contents.data_type, coalesce(held.type, ''), coalesce(held.sql, '')
from gpkg_contents as contents left join sqlite_schema as held on lower(held.name) = lower(contents.table_name)
    and held.type in ('table', 'view')
order by contents.rowid;

-- name: count_rows
-- How many rows a table has, by its own pages: those of an index may have others.
select count(*) from {table} not indexed;
