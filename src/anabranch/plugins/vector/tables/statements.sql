-- Statements of the vector handlers.

-- name: find_layer
select * from app.find_layer(%(name)s, %(job_id)s)

-- name: find_item_layer
select document -> 'properties' ->> 'anabranch:layer' from app.find_shown(%(collection)s, array[%(item)s])

-- name: find_last_gid
select coalesce(max(gid), 0) from geo.{layer}

-- name: may_publish
-- Whether a job may publish an item: nobody else's has its id.
select app.find_foreign(%(collection)s, %(job_id)s, array[%(item)s]) = '{}'

-- name: find_name_holder
select app.find_name_holder(%(job_id)s, %(name)s, %(key)s)

-- name: find_lowest_gid
select min(t.gid) from geo.{table} t

-- name: make_table
select app.make_layer_table(%(table)s, %(job_id)s, %(geometry_type)s, %(mixed)s, %(has_z)s, %(columns)s, %(node)s,
                            %(attempt)s, %(lane)s, %(place)s, %(token)s)

-- name: mix_table
select app.mix_layer_table(%(table)s, %(job_id)s, %(geometry_type)s, %(has_z)s, %(node)s, %(attempt)s, %(lane)s, %(place)s,
                           %(token)s)

-- name: begin_chunk
select app.begin_chunk(%(table)s, %(chunk)s, %(rows)s)

-- name: copy_rows
copy geo.{table} from stdin (format binary)

-- name: copy_layer
-- The rows along a Hilbert curve, by which PostGIS compares geometries; equal ones always in the same order.
copy (select {columns} from geo.{layer} order by geom, gid) to stdout (format binary)

-- name: close_table
select app.close_layer_table(%(table)s)

-- name: index_table
select app.index_layer_table(%(table)s, %(column)s)

-- name: measure_table
select rows, chunks, bounds, types from app.measure_layer_table(%(table)s)

-- name: renumber_table
select app.renumber_layer_table(%(table)s, %(first)s)

-- name: complete_table
select app.complete_layer_table(%(table)s, %(rows)s)

-- name: no_time_limit
-- Indexing or copying a large table takes longer than handlers may; the time of the task bounds it.
set local statement_timeout = 0

-- name: hold_attempt
select app.hold_attempt(%(job_id)s, %(node)s, %(attempt)s, %(lane)s, %(place)s, %(token)s)

-- name: find_adopted
select app.find_adopted(%(table)s, %(job_id)s)

-- name: find_user_table
-- A relation in schema geo as its users see it, with its columns; `code` is the type's name, where PostgreSQL has it.
select c.relkind::text as kind, pg_get_userbyid(c.relowner) = current_user as is_own, c.relrowsecurity as has_policies,
       exists (select from pg_inherits i where i.inhparent = c.oid) as has_children,
       exists (select from pg_index i where i.indrelid = c.oid and (i.indexprs is not null or i.indpred is not null))
           or exists (select from pg_statistic_ext s where s.stxrelid = c.oid and s.stxexprs is not null) as has_expressions,
       (select coalesce(jsonb_agg(jsonb_build_object(
                   'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
                   'code', case when t.typnamespace = 'pg_catalog'::regnamespace then t.typname
                                when t.oid = 'public.geometry'::regtype then 'geometry' end,
                   'description', col_description(c.oid, a.attnum)) order by a.attnum), '[]')
          from pg_attribute a join pg_type t on t.oid = a.atttypid
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
  from pg_class c
 where c.relnamespace = 'geo'::regnamespace and c.relname = %(table)s

-- name: measure_geometries
-- What is in the geometry column of a user's table, read as the user.
select count(*) as rows, count(*) filter (where g.geom is null or public.st_isempty(g.geom)) as missing,
       coalesce(array_agg(distinct public.st_srid(g.geom)) filter (where g.geom is not null), '{{}}') as srids,
       coalesce(array_agg(distinct substr(public.st_geometrytype(g.geom), 4)) filter (where g.geom is not null), '{{}}') as types,
       count(*) filter (where not (public.st_xmin(g.geom) >= -180 and public.st_xmax(g.geom) <= 180
                                   and public.st_ymin(g.geom) >= -90 and public.st_ymax(g.geom) <= 90)) as outside,
       count(*) filter (where not public.st_isvalid(g.geom)) as invalid,
       coalesce(bool_or(public.st_zmflag(g.geom) >= 2), false) as has_z, public.postgis_lib_version() as postgis
  from (select t.{geometry} as geom from geo.{table} t) g

-- name: let_owner_read
-- The right to delete is that to lock it.
grant select, delete on geo.{table} to anabranch_owner

-- name: drop_user_table
drop table if exists geo.{table}

-- name: adopt_table
select * from app.adopt_table(%(source)s, %(table)s, %(job_id)s, %(geometry)s, %(geometry_type)s, %(has_z)s, %(has_gid)s,
                              %(columns)s)
