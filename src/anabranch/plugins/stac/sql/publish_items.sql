-- Write our own rows of items and their outputs.
select * from app.publish_items(%(collection)s, %(job_id)s, %(items)s, %(alone)s)
