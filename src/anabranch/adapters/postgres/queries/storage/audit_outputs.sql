-- The objects that are published, after one of them.
select o.job_id, o.name, o.tier || '://' || o.key as address, o.media_type, o.size, o.sha256
  from app.outputs o
 where (o.job_id, o.name) > (%(job_id)s, %(file)s)
 order by o.job_id, o.name
 limit %(limit)s;
