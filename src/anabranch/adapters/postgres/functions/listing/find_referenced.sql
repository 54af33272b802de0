-- The releases whose assets have these references, if there are few: the rarest reference is looked up. Null: there are many, or
-- the version is all that is given. A part of app.list_releases.
create function app.find_referenced(_platform text, _refs jsonb) returns text[] language plpgsql stable
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
declare
    _most constant integer := 1000;
    _rarest text[];
    _found text[];
begin
    for _found in
        select c.assets
          from jsonb_each_text(_refs) r
         cross join lateral (
               select array_agg(f.asset_id) as assets
                 from (select f.asset_id from app.platforms p
                        cross join lateral (
                              select f.asset_id from app.asset_refs f
                               where f.platform = p.id and f.name = r.key and f.value = r.value limit _most + 1) f
                        where _platform = '*' or p.id = _platform limit _most + 1) f) c
         where not exists (select from app.platforms p
                            where p.version_ref = r.key and (_platform = '*' or p.id = _platform))
         order by cardinality(c.assets) nulls first limit 1
    loop
        _rarest := coalesce(_found, '{}');
    end loop;
    if _rarest is null or cardinality(_rarest) > _most then
        return null;
    end if;
    select array_agg(x.release_id) into _found
      from (select x.release_id from app.releases x where x.asset_id = any(_rarest) limit _most + 1) x;
    return case when cardinality(_found) > _most then null else coalesce(_found, '{}') end;
end;
$$;
