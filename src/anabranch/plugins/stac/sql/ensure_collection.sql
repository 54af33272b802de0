-- Create a collection, or update its fields; returns its document, and whether it changed.
select * from app.ensure_collection(%(document)s, %(said)s, %(alone)s)
