-- A layer that readers see, with the tables that it shows, in their order, and its item with the files; no row where there is
-- none of this name that the platform of the job may see.
create function app.find_layer(_name text, _job_id text default null)
returns table (collection text, item text, number integer, parts text[], geometry_type text, has_z boolean, columns jsonb,
               rows bigint, bounds jsonb, document jsonb, files jsonb)
language sql stable as $$
    select l.collection, l.item, l.number, array_agg(t.table_name order by t.position), l.geometry_type, bool_or(p.has_z),
           l.columns, sum(p.rows)::bigint, l.document -> 'bbox', l.document,
           (select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                       'name', f.name, 'kind', f.kind, 'href', f.tier || '://' || f.key, 'media_type', f.media_type,
                       'size', f.size, 'sha256', f.sha256, 'version', f.version)) order by f.name), '[]')
              from app.published_files f where f.publication = l.publication)
      from app.layers l
      join app.published_tables t on t.publication = l.publication
      join app.layer_tables p on p.name = t.table_name
     where l.name = _name and app.may_read(app.job_platform(_job_id), l.collection, l.public)
     group by l.name, l.collection, l.item, l.number, l.geometry_type, l.columns, l.document, l.publication;
$$;
