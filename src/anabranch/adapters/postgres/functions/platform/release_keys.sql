-- The keys of the items of a release: its own, and those that its jobs published besides, as of a file with several layers.
create function app.release_keys(_release_id text) returns table (key text) language sql stable as $$
    select x.collection || '/' || x.item_id from app.releases x where x.release_id = _release_id
    union
    select p.key from app.published_revisions r join app.publications p on p.id = r.publication where r.release_id = _release_id;
$$;
