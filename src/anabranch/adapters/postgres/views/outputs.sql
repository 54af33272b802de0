-- For processes of release 51 and earlier: the objects behind the items that are published now.
create view app.outputs as
    select p.job_id, f.name, f.kind, f.tier, f.key, f.media_type, f.size, f.sha256,
           split_part(p.key, '/', 1) collate "C" as collection, split_part(p.key, '/', 2) collate "C" as item
      from app.current_publications p join app.published_files f on f.publication = p.source
     where p.kind = 'item';
