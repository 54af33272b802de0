-- Write the rows that readers use of some publications of items, which had none.
create function app.show_items(_publications uuid[]) returns void language sql as $$
    insert into app.catalog_items (collection, id, document, job_id, published_at)
    select split_part(p.key, '/', 1), split_part(p.key, '/', 2), p.body, p.job_id, p.at
      from app.current_publications p where p.kind = 'item' and p.id = any(_publications);
    insert into app.item_handlers (collection, item, handler, version)
    select split_part(p.key, '/', 1), split_part(p.key, '/', 2), h.handler, v.version
      from app.current_publications p
     cross join lateral jsonb_each(p.handlers) h(handler, versions)
     cross join lateral jsonb_array_elements_text(h.versions) v(version)
     where p.kind = 'item' and p.id = any(_publications)
        on conflict do nothing;
$$;
