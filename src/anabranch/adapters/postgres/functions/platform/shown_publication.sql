-- What readers see of a release: the number and content of the current publication of its item, first of its own, and the revision
-- that made it; no row while nothing is shown.
create function app.shown_publication(_release_id text) returns table (number integer, publication uuid, revision integer)
language sql stable as $$
    select p.number, p.source, r.revision
      from app.published_revisions r
      join app.publications c on c.id = r.publication
      join app.publication_keys k on k.kind = c.kind and k.key = c.key
      join app.publications p on p.id = k.current and p.action <> 'withdraw' and p.source = c.id
      join app.releases x on x.release_id = r.release_id
     where r.release_id = _release_id
     order by k.key = x.collection || '/' || x.item_id desc, p.number desc limit 1;
$$;
