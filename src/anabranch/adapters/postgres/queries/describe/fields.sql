-- The columns of tables and views as a model sees them. Whether a view's column may be null is not known.
select c.relname as table, a.attname as name, format_type(coalesce(e.oid, t.oid), null) as type,
       t.typcategory = 'A' as is_array, case when c.relkind <> 'v' then not a.attnotnull end as nullable,
       array(select l.enumlabel::text from pg_catalog.pg_enum l
              where l.enumtypid = coalesce(e.oid, t.oid) order by l.enumsortorder) as labels
  from pg_catalog.pg_attribute a
  join pg_catalog.pg_class c on c.oid = a.attrelid
  join pg_catalog.pg_type t on t.oid = a.atttypid
  left join pg_catalog.pg_type e on e.oid = t.typelem and t.typcategory = 'A'
 where c.relnamespace = %(schema)s::regnamespace and c.relkind in ('r', 'p', 'v')
   and a.attnum > 0 and not a.attisdropped
 order by c.relname, a.attnum
