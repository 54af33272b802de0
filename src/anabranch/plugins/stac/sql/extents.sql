-- Each collection's extent, and the bbox and times of its items.
select c.id, c.document -> 'extent', i.document
  from app.collections c
 cross join lateral (
       select jsonb_build_object('bbox', x.document -> 'bbox', 'properties', jsonb_build_object(
                  'datetime', x.document #> '{properties,datetime}',
                  'start_datetime', x.document #> '{properties,start_datetime}',
                  'end_datetime', x.document #> '{properties,end_datetime}')) as document
         from app.catalog_items x where x.collection = c.id) i
