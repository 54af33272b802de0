-- An item that readers see, and the file that one of its assets shows; null where no file of ours is that asset. `published`:
-- the addresses of all files of the publication that never change. No row where there is no such item that the
-- platform of the job may see.
create function app.find_asset(_collection text, _item text, _asset text, _job_id text default null)
returns table (number integer, document jsonb, kind text, address text, sha256 text, version text, published text[])
language sql stable as $$
    select p.number, p.body, f.kind, f.tier || '://' || f.key, f.sha256, f.version,
           array(select o.tier || '://' || o.key from app.published_files o
                  where o.publication = p.source and o.version is null)
      from app.current_publications p
      left join app.published_files f
        on f.publication = p.source and f.tier || '://' || f.key = p.body #>> array['assets', _asset, 'href']
     where p.kind = 'item' and p.key = _collection || '/' || _item
       and app.may_read(app.job_platform(_job_id), _collection, p.public);
$$;
