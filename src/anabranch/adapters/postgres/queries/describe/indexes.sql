-- Indexes, those of constraints included.
select c.relname || '.' || x.relname,
       concat_ws(', ', pg_get_indexdef(i.indexrelid), case when not i.indisvalid then 'invalid' end,
           case when i.indisclustered then 'clustered' end)
  from pg_catalog.pg_index i
  join pg_catalog.pg_class x on x.oid = i.indexrelid
  join pg_catalog.pg_class c on c.oid = i.indrelid
 where x.relnamespace = %(schema)s::regnamespace
