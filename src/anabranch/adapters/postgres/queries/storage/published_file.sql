-- One file that readers may fetch: what is in app.outputs is published.
select o.job_id::text as job_id, o.name, o.tier || '://' || o.key as address, o.media_type, o.size, o.sha256
  from app.outputs o
 where o.job_id::text = %(job_id)s and o.name = %(file)s
 limit 1
