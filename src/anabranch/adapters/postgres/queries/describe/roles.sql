-- What our roles have that none of them should: rights over the cluster, or each other's.
select r.rolname,
       concat_ws(', ', case when r.rolcanlogin then 'login' end, case when r.rolsuper then 'superuser' end,
           case when r.rolcreaterole then 'createrole' end, case when r.rolcreatedb then 'createdb' end,
           case when r.rolreplication then 'replication' end, case when r.rolbypassrls then 'bypassrls' end,
           (select 'member of ' || string_agg(pg_get_userbyid(m.roleid), ', ' order by m.roleid)
              from pg_catalog.pg_auth_members m
             where m.member = r.oid and pg_get_userbyid(m.roleid) = any(%(roles)s)))
  from pg_catalog.pg_roles r
 where r.rolname = any(%(roles)s)
