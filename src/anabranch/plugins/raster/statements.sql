-- Reads of the raster handlers.

-- name: is_related
-- Whether two jobs are parts of one.
select app.is_related(%(job_id)s, %(other)s)

-- name: may_publish
-- Whether a job may publish an item: nobody else's has its id.
select app.find_foreign(%(collection)s, %(job_id)s, array[%(item)s]) = '{}'
