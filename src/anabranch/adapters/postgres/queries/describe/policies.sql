-- Row security policies.
select c.relname || '.' || p.polname,
       concat_ws(' ', case when p.polpermissive then 'permissive' else 'restrictive' end, 'for', p.polcmd, 'to',
           (select string_agg(case r when 0 then 'public' else pg_get_userbyid(r) end, ', ' order by r) from unnest(p.polroles) r),
           'using ' || pg_get_expr(p.polqual, p.polrelid), 'with check ' || pg_get_expr(p.polwithcheck, p.polrelid))
  from pg_catalog.pg_policy p
  join pg_catalog.pg_class c on c.oid = p.polrelid
 where c.relnamespace = %(schema)s::regnamespace
