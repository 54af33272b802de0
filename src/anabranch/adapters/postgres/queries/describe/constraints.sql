-- Constraints of tables; a foreign key also says when the triggers that keep it were switched off.
select c.relname || '.' || k.conname,
       concat_ws(', ', pg_get_constraintdef(k.oid),
           (select 'switched off' from pg_catalog.pg_trigger t
             where t.tgconstraint = k.oid and t.tgenabled <> 'O' limit 1))
  from pg_catalog.pg_constraint k
  join pg_catalog.pg_class c on c.oid = k.conrelid
 where k.connamespace = %(schema)s::regnamespace and k.contype <> 't'
