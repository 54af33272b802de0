-- Triggers, and whether they fire: a guard that was switched off guards nothing.
select c.relname || '.' || t.tgname,
       concat_ws(', ', pg_get_triggerdef(t.oid),
           case t.tgenabled when 'D' then 'switched off' when 'R' then 'on replicas only' when 'A' then 'always' end)
  from pg_catalog.pg_trigger t
  join pg_catalog.pg_class c on c.oid = t.tgrelid
 where c.relnamespace = %(schema)s::regnamespace and not t.tgisinternal
