-- Drop a table that no publication shows, with what is known of it.
create function app.drop_layer_table(_name text) returns void language plpgsql as $$
begin
    delete from app.layer_tables t where t.name = _name;
    execute format('drop table if exists geo.%I', _name);
end;
$$;
