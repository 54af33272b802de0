-- What the job of a revision published, in all of its items: files and tables, each with its item as collection/item, and a
-- hash over their content.
create function app.list_artifacts(_release_id text, _revision integer) returns table (content_hash text, artifacts jsonb)
language sql stable as $$
    with content as (
        select distinct on (p.key) p.id, p.key, p.body
          from app.published_revisions r join app.publications p on p.id = r.publication
         where r.release_id = _release_id and r.revision = _revision
         order by p.key, p.number desc)
    select encode(sha256(convert_to(string_agg(
               coalesce(f.hashes, '') || coalesce(p.body #>> '{properties,file:checksum}', ''), ' ' order by p.key), 'UTF8')), 'hex'),
           jsonb_path_query_array(jsonb_agg(coalesce(f.files, '[]') || coalesce(t.tables, '[]') order by p.key), '$[*][*]')
      from content p
     cross join lateral (
           select string_agg(coalesce(x.sha256, x.version), ' ' order by x.name) as hashes,
                  jsonb_agg(jsonb_build_object('kind', x.kind, 'item', p.key, 'name', x.name, 'href', x.tier || '://' || x.key,
                                               'media_type', x.media_type, 'size', x.size, 'sha256', x.sha256)
                            order by x.name) as files
             from app.published_files x where x.publication = p.id) f
     cross join lateral (
           select jsonb_agg(distinct jsonb_build_object('kind', 'table', 'item', p.key, 'name', x.name,
                                                        'href', 'geo.' || x.name)) as tables
             from app.published_tables x where x.publication = p.id) t;
$$;
