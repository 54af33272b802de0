-- Finish a table whose rows were all copied: index and analyze it, and take the right to write from the handlers. Answers
-- what it holds, for the caller to compare; one that was finished before only answers. No row where there is no such table.
create function app.finish_layer_table(_name text)
returns table (rows bigint, chunks bigint, bounds float8[], types text[]) language plpgsql as $$
declare
    _finished boolean;
    _type text;
begin
    select t.rows is not null, t.geometry_type || case when t.has_z then 'Z' else '' end into _finished, _type
      from app.layer_tables t where t.name = _name for update;
    if not found then
        return;
    end if;
    if not _finished then
        execute format('revoke insert on geo.%I from anabranch_handler', _name);
        if format('geo.%I', _name)::regclass in (
            select a.attrelid from pg_attribute a
             where a.attname = 'geom' and public.postgis_typmod_type(a.atttypmod) in ('Geometry', 'GeometryZ')) then
            execute format('alter table geo.%I alter geom type public.geometry(%I, 4326) using public.st_multi(geom)',
                           _name, _type);
        end if;
        execute format('alter table geo.%I add primary key (gid)', _name);
        execute format('create index on geo.%I using gist (geom)', _name);
        execute format('analyze geo.%I', _name);
    end if;
    execute format($query$
        select count(*), array[min(public.st_xmin(t.geom)), min(public.st_ymin(t.geom)),
                               max(public.st_xmax(t.geom)), max(public.st_ymax(t.geom))],
               array_agg(distinct public.geometrytype(t.geom))
          from geo.%I t$query$, _name) into rows, bounds, types;
    chunks := (select count(*) from app.loaded_chunks c where c.table_name = _name);
    update app.layer_tables t set rows = finish_layer_table.rows where t.name = _name;
    return next;
end;
$$;
