-- Make a collection, or change what is said of it; how it stands, and whether it changed.
select * from app.ensure_collection(%(document)s, %(said)s, %(alone)s)
