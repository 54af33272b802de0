-- Finish a table whose rows were all copied: index and analyze it, and take the right to write from the handlers. Answers
-- what it holds, for the caller to compare (of its types of geometry the first and the last, if there are several); one that
-- was finished before only answers. No row where there is no such table.
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
        if not exists (select from pg_index i where i.indrelid = format('geo.%I', _name)::regclass and i.indisprimary) then
            execute format('alter table geo.%I add primary key (gid)', _name);  -- a table of an earlier release
        end if;
        execute format('create index on geo.%I using gist (geom)', _name);
        execute format('analyze geo.%I', _name);
    end if;
    -- Aggregates that several processes can compute together.
    execute format($query$
        select a.rows, array[public.st_xmin(a.box), public.st_ymin(a.box), public.st_xmax(a.box), public.st_ymax(a.box)],
               case when a.first = a.last then array[a.first] else array[a.first, a.last] end
          from (select count(*) as rows, public.st_3dextent(t.geom) as box,
                       min(public.geometrytype(t.geom) collate "C") as first,
                       max(public.geometrytype(t.geom) collate "C") as last
                  from geo.%I t) a$query$, _name) into rows, bounds, types;
    chunks := (select count(*) from app.loaded_chunks c where c.table_name = _name);
    update app.layer_tables t set rows = finish_layer_table.rows where t.name = _name;
    return next;
end;
$$;
