-- For processes of release 51 and earlier: the signed manifests of the items that are published now.
create view app.manifests as
    select split_part(p.key, '/', 1) collate "C" as collection, split_part(p.key, '/', 2) collate "C" as item,
           p.manifest as envelope, p.signing_key
      from app.current_publications p where p.kind = 'item' and p.manifest is not null;
