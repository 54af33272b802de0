-- The number, content and revision of the first item that readers see of a release; no row while nothing is shown.
create function app.shown_publication(_release_id text) returns table (number integer, publication uuid, revision integer)
language sql stable as $$
    select s.number, s.publication, s.revision from app.shown_items(_release_id) s limit 1;
$$;
