-- Views with their query.
select c.relname,
       concat_ws(', ', case c.relkind when 'v' then 'view' else 'materialized view' end,
           'owner ' || pg_get_userbyid(c.relowner), 'with (' || array_to_string(c.reloptions, ', ') || ')')
           || E':\n' || pg_get_viewdef(c.oid)
  from pg_catalog.pg_class c
 where c.relnamespace = %(schema)s::regnamespace and c.relkind in ('v', 'm')
