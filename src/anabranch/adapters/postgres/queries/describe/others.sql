-- Everything else that lives in a schema: statistics, operators, collations, default privileges.
select coalesce(i.name, i.identity), i.type
  from pg_catalog.pg_depend d
 cross join lateral pg_identify_object(d.classid, d.objid, 0) i
 where d.refclassid = 'pg_catalog.pg_namespace'::regclass and d.refobjid = %(schema)s::regnamespace
   and d.classid not in ('pg_catalog.pg_class'::regclass, 'pg_catalog.pg_proc'::regclass,
                         'pg_catalog.pg_type'::regclass, 'pg_catalog.pg_constraint'::regclass)
