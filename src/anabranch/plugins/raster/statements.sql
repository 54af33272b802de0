-- Reads of the raster handlers.

-- name: is_related
-- Whether two jobs are parts of one.
select app.is_related(%(job_id)s, %(other)s)
