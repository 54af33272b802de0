-- Complete a table that was closed, indexed and compared: it has a primary key and statistics, and counts as whole from now on.
create function app.complete_layer_table(_name text, _rows bigint) returns void language plpgsql as $$
declare
    _numbers text;
begin
    perform from app.layer_tables t where t.name = _name for update;
    select x.relname into _numbers from pg_index i join pg_class x on x.oid = i.indexrelid
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
     where i.indrelid = format('geo.%I', _name)::regclass and a.attname = 'gid' and i.indisunique and not i.indisprimary;
    if found then
        execute format('alter table geo.%I add primary key using index %I', _name, _numbers);
    end if;
    execute format('analyze geo.%I', _name);
    update app.layer_tables t set rows = _rows where t.name = _name;
end;
$$;
