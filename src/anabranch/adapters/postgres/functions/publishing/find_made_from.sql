-- The files below a folder, like bronze://delivery/, that items of a collection were last made from: the newest publication
-- of each that brought such content counts, whatever was rolled back, withdrawn or replaced from elsewhere since. number: of
-- its newest publication; shown: readers see the item. No row where the platform of the job may not see the
-- collection.
create function app.find_made_from(_collection text, _folder text, _job_id text default null)
returns table (item text, number integer, shown boolean, address text, versions jsonb, sha256 jsonb)
language sql stable as $$
    select split_part(k.key, '/', 2), k.number, c.action <> 'withdraw', m.made_from ->> 'address', m.made_from -> 'versions',
           coalesce(m.made_from -> 'sha256', '{}')
      from app.publication_keys k
      join app.publications c on c.id = k.current
     cross join lateral (
           select p.made_from from app.publications p
            where p.kind = k.kind and p.key = k.key and p.source = p.id and starts_with(p.made_from ->> 'address', _folder)
            order by p.number desc limit 1) m
     where k.kind = 'item' and k.key > _collection || '/' and k.key < _collection || '0'
       and app.may_read(app.job_platform(_job_id), _collection, false);
$$;
