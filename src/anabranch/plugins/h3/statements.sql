-- Reads of H3 grids.

-- name: no_time_limit
-- Uniting a large layer takes longer than handlers may; the time of the task bounds it.
set local statement_timeout = 0

-- name: read_area
-- The area of a layer, or of one of its features.
select public.st_asbinary(public.st_force2d(public.st_union(l.geom))) from geo.{layer} l
 where %(gid)s::bigint is null or l.gid = %(gid)s::bigint
