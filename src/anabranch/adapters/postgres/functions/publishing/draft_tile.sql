-- A vector tile of tables that a job has loaded and nothing shows yet, with at most the first _limit features by their ids; null
-- where there are no such tables.
create function app.draft_tile(_job_id text, _tables text[], _layer text, _z integer, _x integer, _y integer, _limit integer)
returns bytea language plpgsql stable as $$
declare
    _query text := app.draft_query(_job_id, _tables);
    _tile bytea;
begin
    if _query is null then
        return null;
    end if;
    execute format($query$
        select coalesce(public.st_asmvt(m, $1, 4096, 'geom', 'gid'), '')
          from (select t.gid, (to_jsonb(t) - 'gid' - 'geom')::text as properties, public.st_asmvtgeom(
                           public.st_transform(t.geom, 3857), public.st_tileenvelope($2, $3, $4), 4096, 64) as geom
                  from (%s) t
                 where t.geom operator(public.&&) public.st_transform(public.st_intersection(  -- none of it is behind 180°
                           public.st_tileenvelope($2, $3, $4, margin => 64.0 / 4096), public.st_tileenvelope(0, 0, 0)), 4326)
                 order by t.gid limit $5) m
         where m.geom is not null$query$, _query) into _tile using _layer, _z, _x, _y, _limit;
    return _tile;
end;
$$;
