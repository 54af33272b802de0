-- The vector layers that readers see now: views in schema geo, each with its item and the publication that it shows.
create view app.layers as
    select distinct on (t.name) t.name, split_part(p.key, '/', 1) collate "C" as collection,
           split_part(p.key, '/', 2) collate "C" as item, p.source as publication, p.number, p.owner, p.body as document,
           l.geometry_type, 4326 as srid, l.columns, p.public
      from app.published_tables t
      join app.layer_tables l on l.name = t.table_name
      join app.current_publications p on p.source = t.publication and p.kind = 'item'
     order by t.name, t.position;
