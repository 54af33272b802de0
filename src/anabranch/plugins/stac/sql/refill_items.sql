-- Insert the next items of a collection, by id, into pgstac, from our rows; returns the last id, or null at the end.
with next as materialized (
    select i.id, i.document from app.catalog_items i
     where i.collection = %(collection)s and i.id > %(after)s order by i.id limit %(most)s),
load as materialized (
    select pgstac.upsert_items(jsonb_agg(n.document)) from next n having count(*) > 0)
select max(n.id) from next n left join load on true
