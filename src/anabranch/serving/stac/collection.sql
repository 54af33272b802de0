-- A collection as pgstac stores it; no row where there is none.
select content from collections where id = $1
