-- What is read of objects, outputs and the catalog.

-- name: audit_jobs
-- Of these jobs those that are known: whether they have ended, whether results of theirs were put aside, and every text
-- in what their tasks gave, handed over or keep in checkpoints that is an address; and the keys of what was put aside.
select j.job_id, j.state in ('completed', 'failed', 'cancelled') as ended,
       coalesce(bool_or(said.put_aside), false) as put_aside,
       coalesce(array_agg(distinct said.address) filter (where said.address is not null), '{}') as addresses,
       array_remove(array_agg(distinct said.href) || (j.result #>> '{anabranch:reference,href}'), null) as results
  from app.jobs j
  left join app.lanes l on l.job = j.id
  left join lateral (
       select o.reference is not null as put_aside, found.word #>> '{}' as address, o.reference ->> 'href' as href
         from app.outcomes o
         left join lateral jsonb_path_query(jsonb_build_array(o.result, o.handed), 'strict $.** ? (@.type() == "string")')
                           found(word) on found.word #>> '{}' ~ '^(bronze|silver|gold)://'
        where o.lane = l.id
        union all
       select false, found.word #>> '{}', null
         from app.checkpoints c
        cross join lateral jsonb_path_query(c.state, 'strict $.** ? (@.type() == "string")') found(word)
        where c.lane = l.id and found.word #>> '{}' ~ '^(bronze|silver|gold)://') said on true
 where j.job_id = any(%(jobs)s)
 group by j.job_id, j.state, j.result;

-- name: audit_outputs
-- The objects that are published, after one of them.
select o.job_id, o.name, o.tier || '://' || o.key as address, o.media_type, o.size, o.sha256
  from app.outputs o
 where (o.job_id, o.name) > (%(job_id)s, %(file)s)
 order by o.job_id, o.name
 limit %(limit)s;

-- name: audit_results
-- The results that some jobs and their tasks put aside, after one of them; a job without any is there with nulls.
select j.id as job, stored.reference ->> 'href' as href, (stored.reference ->> 'size')::bigint as size
  from (select x.id, x.result from app.jobs x where x.id > %(job)s order by x.id limit %(limit)s) j
  left join lateral (
       select o.reference from app.lanes l join app.outcomes o on o.lane = l.id
        where l.job = j.id and o.reference is not null
        union all
       select j.result -> 'anabranch:reference' where j.result ? 'anabranch:reference') stored on true
 order by j.id;

-- name: catalog_parts
-- What a server and a database have of what the catalog needs: the extensions that can't be had, PostGIS as it is
-- installed, whether pgstac is, and whether our roles may use it.
select (select coalesce(array_agg(x.name order by x.place), '{}')
          from unnest(%(extensions)s::text[]) with ordinality x(name, place)
         where not exists (select from pg_catalog.pg_available_extensions a where a.name = x.name)) as missing,
       (select e.extversion from pg_catalog.pg_extension e where e.extname = 'postgis') as postgis,
       to_regclass('pgstac.migrations') is not null as has_pgstac,
       coalesce(pg_has_role(to_regrole('anabranch_handler'), to_regrole('pgstac_ingest'), 'usage')
                and pg_has_role(to_regrole('anabranch_reader'), to_regrole('pgstac_read'), 'usage'), false) as granted,
       current_setting('server_version_num')::integer / 10000 as major

-- name: draft_file
-- A file that a task of a job made, by the name under which it is to be published; of several, the newest.
select j.job_id, found.output ->> 'name' as name, found.output ->> 'href' as address,
       found.output ->> 'media_type' as media_type, (found.output ->> 'size')::bigint as size,
       found.output ->> 'sha256' as sha256
  from app.jobs j
  join app.lanes l on l.job = j.id and not l.superseded
  join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
 cross join lateral jsonb_path_query(o.result, '$.outputs[*]', '{}', true) found(output)
 where j.id = %(job)s
   and found.output @> jsonb_build_object('name', %(file)s::text)
   and found.output @? '$ ? (@.href like_regex "^(silver|gold)://" && @.media_type.type() == "string"
                         && @.size.type() == "number" && @.sha256 like_regex "^[0-9a-f]{64}$")'
 order by o.finished_at desc
 limit 1;

-- name: item_manifest
-- The signed manifest of an item; no row: there is no such item; null: it has none.
select m.envelope from app.catalog_items i
  left join app.manifests m on m.collection = i.collection and m.item = i.id
 where i.collection = %(collection)s and i.id = %(item)s;

-- name: items_made_by
-- What a handler took part in, in any version or in one of these, by collection and id, after one of them.
select i.collection, i.id, i.job_id, i.published_at, m.signing_key, app.item_versions(i.collection, i.id) as handlers
  from (select distinct h.collection, h.item from app.item_handlers h
         where h.handler = %(handler)s and (h.collection, h.item) > (%(after_collection)s, %(after_item)s)
           and (%(collection)s::text is null or h.collection = %(collection)s)
           and (%(versions)s::text[] is null or h.version = any(%(versions)s))
         order by h.collection, h.item) h
  join app.catalog_items i on i.collection = h.collection and i.id = h.item
  left join app.manifests m on m.collection = i.collection and m.item = i.id
 where %(job)s::text is null or i.job_id = %(job)s
 order by h.collection, h.item limit %(limit)s;

-- name: made_versions
-- The versions of a handler that items were made by; each is found by one look into the index.
with recursive found(version) as (
    (select h.version from app.item_handlers h where h.handler = %(handler)s order by h.version limit 1)
    union all
    select (select h.version from app.item_handlers h
             where h.handler = %(handler)s and h.version > found.version order by h.version limit 1)
      from found where found.version is not null)
select version from found where version is not null;

-- name: pgstac_version
-- The version of pgstac that is installed.
select version from pgstac.migrations order by datetime desc, version desc limit 1

-- name: published_file
-- One file that readers may fetch: what is in app.outputs is published.
select o.job_id::text as job_id, o.name, o.tier || '://' || o.key as address, o.media_type, o.size, o.sha256
  from app.outputs o
 where o.job_id::text = %(job_id)s and o.name = %(file)s
 limit 1

-- name: published_files
-- Those of some objects that are published, in the order of their addresses.
select o.job_id::text as job_id, o.name, o.tier || '://' || o.key as address, o.media_type, o.size, o.sha256
  from unnest(%(tiers)s::text[], %(keys)s::text[]) as wanted (tier, key)
  join app.outputs o using (tier, key)
 order by address, o.job_id

-- name: published_items
-- What is published, by collection and id, after one of them; all of it, or that of a job.
select i.collection, i.id, i.job_id, i.published_at, m.signing_key, app.item_versions(i.collection, i.id) as handlers
  from app.catalog_items i
  left join app.manifests m on m.collection = i.collection and m.item = i.id
 where (i.collection, i.id) > (%(after_collection)s, %(after_item)s)
   and (%(collection)s::text is null or i.collection = %(collection)s)
   and (%(job)s::text is null or i.job_id = %(job)s)
 order by i.collection, i.id limit %(limit)s;

-- name: publishing_items
-- The published items that use some objects, in the order of the objects' addresses.
select o.tier || '://' || o.key as address, o.collection || '/' || o.item as item
  from unnest(%(tiers)s::text[], %(keys)s::text[]) as wanted (tier, key)
  join app.outputs o using (tier, key)
 order by address, item

-- name: signing_keys
-- The public keys that signed manifests, the newest first.
select k.id, k.public_key, k.first_used_at, k.retired_at from app.signing_keys k order by k.first_used_at desc, k.id;

-- name: storage_marks
-- The marks of the areas of storage, and where the process found them that noted them.
select m.area, m.mark, m.url from app.storage_marks m;
