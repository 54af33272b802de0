-- Reads of the synchronization of a folder.

-- name: now
-- The time of the database.
select app.now()

-- name: find_made_from
-- What items of a collection were last made from, where that is a file below a folder.
select item, number, shown, address, versions, sha256 from app.find_made_from(%(collection)s, %(folder)s, %(job_id)s)

-- name: list_failures
-- The tasks of a node that failed, and why.
select place, error from app.list_failures(%(job_id)s, %(node)s)

-- name: note_versions
-- Record the versions that files with the same content have by now.
select app.note_versions(%(collection)s, %(files)s::jsonb)
