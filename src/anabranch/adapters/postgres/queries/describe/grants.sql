-- Who may do what with each object, the owner's own rights included; a column only where it has rights of its own.
with objects (name, acl) as (
    select ''::text, coalesce(n.nspacl, acldefault('n', n.nspowner))
      from pg_catalog.pg_namespace n where n.oid = %(schema)s::regnamespace
    union all
    select c.relname::text, coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))
      from pg_catalog.pg_class c
     where c.relnamespace = %(schema)s::regnamespace and c.relkind in ('r', 'p', 'f', 'S', 'v', 'm')
    union all
    select format('%%s.%%s', c.relname, a.attname), a.attacl
      from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
     where c.relnamespace = %(schema)s::regnamespace and a.attacl is not null
    union all
    select format('%%s(%%s)', p.proname, pg_get_function_identity_arguments(p.oid)),
           coalesce(p.proacl, acldefault('f', p.proowner))
      from pg_catalog.pg_proc p where p.pronamespace = %(schema)s::regnamespace
    union all
    select t.typname::text, coalesce(t.typacl, acldefault('T', t.typowner))
      from pg_catalog.pg_type t where t.typnamespace = %(schema)s::regnamespace and t.typtype in ('e', 'd', 'r')
)
select o.name, coalesce((
           select string_agg(g.grantee || ': ' || g.privileges, '; ' order by g.grantee)
             from (select case x.grantee when 0 then 'public' else pg_get_userbyid(x.grantee) end as grantee,
                          string_agg(lower(x.privilege_type) || case when x.is_grantable then ' (may grant)' else '' end,
                                     ', ' order by x.privilege_type) as privileges
                     from aclexplode(o.acl) x group by 1) g), 'nobody')
  from objects o
