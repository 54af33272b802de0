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

-- name: list_columns
-- The columns of a table or view without that of geometries.
select name from pragma_table_info(:table)
where lower(name) not in (select lower(column_name) from gpkg_geometry_columns where lower(table_name) = lower(:table));

-- name: find_key
-- The column that is the number of a row.
select name from pragma_table_info(:table) where upper(type) = 'INTEGER' and pk = 1;

-- name: is_any
-- Whether a condition holds for any row of a table or view.
select exists (select 1 from {table} where {condition});

-- name: look_at_columns
-- Facts of columns, each by an expression, in one pass over a table or view.
select {facts} from {table};

-- name: odd_integer
{column} <> ({column} | 0) or {column} not between {least} and {most}

-- name: odd_number
{column} > {most} or {column} < -{most}

-- name: odd_date
date({column}) is not {column}

-- name: odd_time
strftime('%Y-%m-%dT%H:%M:%S', {column}) is not substr({column}, 1, 19)
or {column} glob '*.[0-9][0-9][0-9][0-9]*'

-- name: odd_text
instr({column}, char(0)) > 0

-- name: facts_of_column
count({column}), sum(typeof({column}) in ('text', 'blob')), sum(typeof({column}) = 'real'),
min({column}) filter (where typeof({column}) = 'integer'), max({column}) filter (where typeof({column}) = 'integer')

-- name: read_column
-- The values of a column.
select {column} from {table} where {column} is not null;

-- name: read_columns
-- The values of columns in the order of rows, with the key of each row.
select {columns} from {table} not indexed order by {key};

-- name: read_view
-- All columns of a view: any other list might come in another order.
select * from {table};

-- name: find_geometry
-- The column with the geometries of a table.
select column_name from gpkg_geometry_columns where lower(table_name) = lower(?);

-- name: read_geometries
-- The first bytes of values in the geometry column of some rows.
select {key}, substr({column}, 1, 20), length({column}) from {table}
where {key} in (select value from json_each(?)) and typeof({column}) in ('text', 'blob');
