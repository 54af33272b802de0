-- Enums with their labels in order, domains with their checks.
select t.typname,
       concat_ws(', ', case t.typtype when 'e' then 'enum' when 'd' then 'domain' else 'range' end,
           'owner ' || pg_get_userbyid(t.typowner),
           (select string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder)
              from pg_catalog.pg_enum e where e.enumtypid = t.oid),
           format_type(nullif(t.typbasetype, 0), t.typtypmod), case when t.typnotnull then 'not null' end, t.typdefault,
           (select string_agg(pg_get_constraintdef(k.oid), ', ' order by k.conname)
              from pg_catalog.pg_constraint k where k.contypid = t.oid))
  from pg_catalog.pg_type t
 where t.typnamespace = %(schema)s::regnamespace and t.typtype in ('e', 'd', 'r')
