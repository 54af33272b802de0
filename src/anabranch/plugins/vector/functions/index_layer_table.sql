-- Index the numbers or the shapes of a table that was closed, unless that was done; both may be done at once. An attempt that
-- does the same now is waited for.
create function app.index_layer_table(_name text, _column text) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('anabranch index of ' || _name || ' ' || _column, 0));
    if exists (select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
                where i.indrelid = format('geo.%I', _name)::regclass and a.attname = _column) then
        return;
    end if;
    execute case _column when 'gid' then format('create unique index on geo.%I (gid)', _name)
                         when 'geom' then format('create index on geo.%I using gist (geom)', _name) end;
end;
$$;
