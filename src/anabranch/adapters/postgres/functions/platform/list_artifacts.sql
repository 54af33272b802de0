-- What a job, or one that it ran, published last under a key: its files and tables, and a hash over their content.
create function app.list_artifacts(_key text, _job_id text) returns table (content_hash text, artifacts jsonb)
language sql stable as $$
    select encode(sha256(convert_to(coalesce(f.hashes, '') || coalesce(p.body #>> '{properties,file:checksum}', ''), 'UTF8')), 'hex'),
           coalesce(f.files, '[]') || coalesce(t.tables, '[]')
      from (select x.* from app.publications x
             where x.kind = 'item' and x.key = _key and x.source = x.id
               and exists (select from app.job_line(x.job_id) l where l.job_id = _job_id)
             order by x.number desc limit 1) p
     cross join lateral (
           select string_agg(coalesce(x.sha256, x.version), ' ' order by x.name) as hashes,
                  jsonb_agg(jsonb_build_object('kind', x.kind, 'name', x.name, 'href', x.tier || '://' || x.key,
                                               'media_type', x.media_type, 'size', x.size, 'sha256', x.sha256)
                            order by x.name) as files
             from app.published_files x where x.publication = p.id) f
     cross join lateral (
           select jsonb_agg(distinct jsonb_build_object('kind', 'table', 'name', x.name, 'href', 'geo.' || x.name)) as tables
             from app.published_tables x where x.publication = p.id) t;
$$;
