-- What a server and a database have of what the catalog needs: the extensions that can't be had, PostGIS as it is
-- installed, whether pgstac is, and whether our roles may use it.
select (select coalesce(array_agg(x.name order by x.place), '{}')
          from unnest(%(extensions)s::text[]) with ordinality x(name, place)
         where not exists (select from pg_catalog.pg_available_extensions a where a.name = x.name)) as missing,
       (select e.extversion from pg_catalog.pg_extension e where e.extname = 'postgis') as postgis,
       to_regclass('pgstac.migrations') is not null as has_pgstac,
       coalesce(pg_has_role(to_regrole('anabranch_handler'), to_regrole('pgstac_ingest'), 'usage')
                and pg_has_role(to_regrole('anabranch_reader'), to_regrole('pgstac_read'), 'usage'), false) as granted,
       current_setting('server_version_num')::integer / 10000 as major
