-- Statements of the vector handlers.

-- name: find_layer
select * from app.find_layer(%(name)s)

-- name: may_publish
-- Whether a job may publish an item: nobody else's has its id.
select app.find_foreign(%(collection)s, %(job_id)s, array[%(item)s]) = '{}'

-- name: make_table
select app.make_layer_table(%(table)s, %(job_id)s, %(geometry_type)s, %(mixed)s, %(has_z)s, %(columns)s, %(node)s,
                            %(attempt)s, %(lane)s, %(place)s, %(token)s)

-- name: begin_chunk
select app.begin_chunk(%(table)s, %(chunk)s, %(rows)s)

-- name: copy_rows
copy geo.{table} from stdin (format binary)

-- name: copy_layer
-- The rows along a Hilbert curve, by which PostGIS compares geometries; equal ones always in the same order.
copy (select {columns} from geo.{layer} order by geom, gid) to stdout (format binary)

-- name: finish_table
select * from app.finish_layer_table(%(table)s)

-- name: no_time_limit
-- Indexing or copying a large table takes longer than handlers may; the time of the task bounds it.
set local statement_timeout = 0

-- name: hold_attempt
select app.hold_attempt(%(job_id)s, %(node)s, %(attempt)s, %(lane)s, %(place)s, %(token)s)
