-- Those of some objects that are published, in the order of their addresses.
select o.job_id::text as job_id, o.name, o.tier || '://' || o.key as address, o.media_type, o.size, o.sha256
  from unnest(%(tiers)s::text[], %(keys)s::text[]) as wanted (tier, key)
  join app.outputs o using (tier, key)
 order by address, o.job_id
