-- Reads of zonal statistics.

-- name: find_asset
-- An item as readers see it, the file of one of its assets, and the addresses of all.
select number, document, kind, address, sha256, version, published
  from app.find_asset(%(collection)s, %(item)s, %(asset)s, %(job_id)s)

-- name: no_time_limit
-- A look at all rows of a large layer takes longer than handlers may; the time of the task bounds it.
set local statement_timeout = 0

-- name: divide_layer
-- The first and the last gid of parts of a layer, each of at most so many rows, and of about so many bytes.
select row_number() over (order by min(b.gid)) - 1 as number, min(b.gid) as first, max(b.gid) as last, count(*) as rows
  from (select l.gid, floor(sum(greatest(1.0 / %(rows)s, pg_column_size(l.geom)::float8 / %(bytes)s)) over (order by l.gid)
                            - 1e-9) as part
          from geo.{layer} l) b
 group by b.part
 order by 1

-- name: read_polygons
-- The polygons of a part of a layer.
select l.gid, public.st_asbinary(l.geom) from geo.{layer} l where l.gid between %(first)s and %(last)s order by l.gid
