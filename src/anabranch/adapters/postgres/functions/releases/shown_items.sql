-- What readers see of a release: its items that are published, with the number, content and revision of each. First of all
-- the release's own, then that which changed most often.
create function app.shown_items(_release_id text) returns table (key text, number integer, publication uuid, revision integer)
language sql stable as $$
    select k.key, p.number, p.source, r.revision
      from app.published_revisions r
      join app.publications c on c.id = r.publication
      join app.publication_keys k on k.kind = c.kind and k.key = c.key
      join app.publications p on p.id = k.current and p.action <> 'withdraw' and p.source = c.id
      join app.releases x on x.release_id = r.release_id
     where r.release_id = _release_id
     order by k.key = x.collection || '/' || x.item_id desc, p.number desc, k.key;
$$;
