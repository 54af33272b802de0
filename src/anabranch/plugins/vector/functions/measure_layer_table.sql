-- What a table holds, for the caller to compare: its rows, the files that they were copied from, its extent, and of its types
-- of geometry the first and the last, if there are several. By aggregates that several processes can compute together.
create function app.measure_layer_table(_name text)
returns table (rows bigint, chunks bigint, bounds float8[], types text[]) language plpgsql stable as $$
begin
    execute format($query$
        select a.rows, array[public.st_xmin(a.box), public.st_ymin(a.box), public.st_xmax(a.box), public.st_ymax(a.box)],
               case when a.first = a.last then array[a.first] else array[a.first, a.last] end
          from (select count(*) as rows, public.st_3dextent(t.geom) as box,
                       min(public.geometrytype(t.geom) collate "C") as first,
                       max(public.geometrytype(t.geom) collate "C") as last
                  from geo.%I t) a$query$, _name) into rows, bounds, types;
    chunks := (select count(*) from app.loaded_chunks c where c.table_name = _name);
    return next;
end;
$$;
