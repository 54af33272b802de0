-- Reads of the raster handlers.

-- name: find_foreign
-- Those of the given items that belong to other owners than that of the job.
select app.find_foreign(%(collection)s, %(job_id)s, %(items)s)
