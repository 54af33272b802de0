-- A schema and its owner.
select '', 'owner ' || pg_get_userbyid(nspowner) from pg_catalog.pg_namespace where oid = %(schema)s::regnamespace
