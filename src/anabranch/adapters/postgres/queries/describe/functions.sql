-- Functions and procedures by their full definition: settings, security and volatility are part of it.
select format('%%s(%%s)', p.proname, pg_get_function_identity_arguments(p.oid)),
       format(E'owner %%s:\n%%s', pg_get_userbyid(p.proowner),
              case p.prokind when 'a' then 'aggregate' else pg_get_functiondef(p.oid) end)
  from pg_catalog.pg_proc p
 where p.pronamespace = %(schema)s::regnamespace
