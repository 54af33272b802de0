-- What readers see of some collections, those that the platform of the job may see: the document of each, and after it those
-- of its items in the order of their ids, with the files of their publications.
create function app.list_published(_collections text[], _job_id text default null) returns table (document jsonb, files jsonb)
language sql stable as $$
    with visible as materialized (
        select c.id from app.collections c
         where c.id = any(_collections) and app.may_read(app.job_platform(_job_id), c.id, false))
    select x.document, coalesce(f.files, '[]')
      from (select c.id as collection, null::text as item, c.document, null::uuid as publication
              from app.collections c where c.id in (select v.id from visible v)
            union all
            select i.collection, i.id, i.document, p.source
              from app.catalog_items i
              join app.current_publications p on p.kind = 'item' and p.key = i.collection || '/' || i.id
             where i.collection in (select v.id from visible v)) x
      left join lateral (
           select jsonb_agg(jsonb_build_object('address', f.tier || '://' || f.key, 'publication', f.publication,
                                               'name', f.name)) as files
             from app.published_files f where f.publication = x.publication) f on true
     order by x.collection collate "C", x.item collate "C" nulls first;
$$;
