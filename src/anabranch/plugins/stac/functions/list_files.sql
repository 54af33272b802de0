-- The files of a publication: their names, sizes and addresses.
create function app.list_files(_publication uuid) returns jsonb language sql stable as $$
    select coalesce(jsonb_agg(jsonb_build_object('name', f.name, 'size', f.size, 'address', f.tier || '://' || f.key)
                              order by f.name), '[]')
      from app.published_files f where f.publication = _publication;
$$;
