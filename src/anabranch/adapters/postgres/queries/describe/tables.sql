-- Tables, sequences and composite types: owner, options and row security.
select c.relname,
       concat_ws(', ',
           case c.relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'f' then 'foreign table'
                          when 'S' then 'sequence' else 'composite type' end,
           'owner ' || pg_get_userbyid(c.relowner),
           case c.relpersistence when 'u' then 'unlogged' end,
           'with (' || array_to_string(c.reloptions, ', ') || ')',
           'toast with (' || array_to_string(toast.reloptions, ', ') || ')',
           case when c.relrowsecurity then 'row security' end,
           case when c.relforcerowsecurity then 'forced row security' end,
           'replica identity ' || nullif(nullif(c.relreplident::text, 'd'), 'n'),
           'inherits ' || (select string_agg(i.inhparent::regclass::text, ', ' order by i.inhseqno)
                             from pg_catalog.pg_inherits i where i.inhrelid = c.oid),
           pg_get_expr(c.relpartbound, c.oid),
           (select format('%%s from %%s by %%s, %%s to %%s, cache %%s, cycle %%s', s.seqtypid::regtype, s.seqstart,
                          s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle)
              from pg_catalog.pg_sequence s where s.seqrelid = c.oid))
  from pg_catalog.pg_class c
  left join pg_catalog.pg_class toast on toast.oid = c.reltoastrelid
 where c.relnamespace = %(schema)s::regnamespace and c.relkind in ('r', 'p', 'f', 'S', 'c')
