-- A page of the features of tables that a job has loaded and nothing shows yet, as GeoJSON, by their ids after one of them; it
-- ends before the first that would make it larger than _bytes.
create function app.draft_features(_job_id text, _tables text[], _after bigint, _limit integer, _bytes bigint)
returns table (gid bigint, feature text) language plpgsql stable as $$
declare
    _query text := app.draft_query(_job_id, _tables);
begin
    if _query is null then
        return;
    end if;
    return query execute format($query$
        select s.gid, s.feature
          from (select p.gid, p.feature, row_number() over by_id as place, sum(octet_length(p.feature)) over by_id as bytes
                  from (select t.gid, json_build_object(
                                   'type', 'Feature', 'id', t.gid, 'geometry', public.st_asgeojson(t.geom)::json,
                                   'properties', to_jsonb(t) - 'gid' - 'geom')::text as feature
                          from (%s) t where t.gid > $1 order by t.gid limit $2) p
                window by_id as (order by p.gid)) s
         where s.bytes <= $3 or s.place = 1
         order by s.gid$query$, _query) using _after, _limit, _bytes;
end;
$$;
