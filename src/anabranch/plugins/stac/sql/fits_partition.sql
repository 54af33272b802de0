-- Whether a collection's partition takes items with these times without a change.
select coalesce(bool_and(m.constraint_dtrange @> lower(t.range) and m.constraint_edtrange @> upper(t.range)), false)
  from (select pgstac.stac_daterange(p) as range from jsonb_array_elements(%(times)s::jsonb) p) t
  left join pgstac.partition_stats s on s.collection = %(collection)s
  left join lateral pgstac.partition_catalog_meta(s.partition) m on true
