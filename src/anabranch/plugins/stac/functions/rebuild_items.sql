-- Make the rows and views that readers use from the current publications again (C3); the caller has locked the catalog.
create function app.rebuild_items() returns void language plpgsql as $$
begin
    delete from app.catalog_items;
    perform app.show_items(array(select p.id from app.current_publications p where p.kind = 'item'));
    perform app.show_tables(array(select k.current from app.publication_keys k where k.kind = 'item' and k.number > 0));
end;
$$;
