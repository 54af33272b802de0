-- Reads of the raster handlers.

-- name: is_related
-- Whether two jobs are parts of one.
select app.is_related(%(job_id)s, %(other)s)

-- name: find_foreign
-- Those of the given items that belong to other owners than that of the job.
select app.find_foreign(%(collection)s, %(job_id)s, %(items)s)
