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

-- name: affected_files
-- The files of a publication.
select f.name, f.size, f.tier || '://' || f.key as address
  from app.published_files f where f.publication = %(publication)s::uuid order by f.name;

-- name: audit_files
-- The objects of publications, those of former and withdrawn ones too, after one of them; those that others may replace only
-- while they are shown.
select f.publication::text, f.name, f.tier || '://' || f.key as address, f.media_type, f.size, f.sha256, f.version
  from app.published_files f
 where (f.publication, f.name) > (%(publication)s::uuid, %(file)s)
   and (f.version is null or exists (select from app.current_publications c where c.source = f.publication))
 order by f.publication, f.name
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

-- name: collection_access
-- The platform that a collection belongs to, and those that may write to it.
select k.key as collection, k.owner as platform,
       array(select w.platform from app.collection_writers w where w.collection = k.key order by 1) as writers
  from app.publication_keys k join app.collections c on c.id = k.key
 where k.kind = 'collection' and k.key = %(collection)s
   and (%(platform)s::text is null or app.may_read(%(platform)s, k.key, false));

-- name: current_file
-- A file that an item shows now; gone where it is withdrawn.
select k.key, false as current, c.action = 'withdraw' as gone, f.publication::text, f.name,
       f.tier || '://' || f.key as address, f.media_type, f.size, f.sha256, f.version
  from app.publication_keys k
  join app.publications c on c.id = k.current
  left join app.published_files f on f.publication = c.source and f.name = %(file)s
 where k.kind = 'item' and k.key = %(key)s
   and (%(platform)s::text is null or app.may_read(%(platform)s, split_part(k.key, '/', 1), k.public))

-- name: draft_file
-- A file that a task of a job made, by the name under which it is to be published; of several, the newest.
select found.output ->> 'name' as name, found.output ->> 'href' as address,
       found.output ->> 'media_type' as media_type, (found.output ->> 'size')::bigint as size,
       found.output ->> 'sha256' as sha256
  from app.jobs j
  join app.lanes l on l.job = j.id and not l.superseded
  join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
 cross join unnest('{$.outputs[*],$.item.outputs[*],$.items[*].outputs[*]}'::jsonpath[]) place(path)
 cross join lateral jsonb_path_query(o.result, place.path, '{}', true) found(output)
 where j.id = %(job)s
   and found.output @> jsonb_build_object('name', %(file)s::text)
   and found.output @? '$ ? (@.href like_regex "^(silver|gold)://" && @.media_type.type() == "string"
                         && @.size.type() == "number" && @.sha256 like_regex "^[0-9a-f]{64}$")'
 order by o.finished_at desc
 limit 1;

-- name: item_manifest
-- The signed manifest of an item; no row: there is no such item; null: it has none.
select k.manifest as envelope from app.current_publications k
 where k.kind = 'item' and k.key = %(key)s
   and (%(platform)s::text is null or app.may_read(%(platform)s, split_part(k.key, '/', 1), k.public));

-- name: items_made_by
-- What a handler took part in, in any version or in one of these, by collection and id, after one of them.
select i.collection, i.id, p.number, p.source::text as publication, i.job_id, i.published_at, p.signing_key,
       app.item_versions(i.collection, i.id) as handlers
  from (select distinct h.collection, h.item from app.item_handlers h
         where h.handler = %(handler)s and (h.collection, h.item) > (%(after_collection)s, %(after_item)s)
           and (%(collection)s::text is null or h.collection = %(collection)s)
           and (%(versions)s::text[] is null or h.version = any(%(versions)s))
           and (%(platform)s::text is null
                or h.collection in (select v.collection from app.visible_collections(%(platform)s) v))
         order by h.collection, h.item) h
  join app.catalog_items i on i.collection = h.collection and i.id = h.item
  join app.current_publications p on p.kind = 'item' and p.key = i.collection || '/' || i.id
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

-- name: publication_file
-- A file of a publication: gone where its item is withdrawn, its revision revoked or its files removed; without an address where it has no
-- such file. current: the item is published.
select p.key, c.action <> 'withdraw' as current, f.publication::text, f.name, f.tier || '://' || f.key as address,
       f.media_type, f.size, f.sha256, f.version,
       c.action = 'withdraw' or app.is_revoked(p.source) or not (p.source = c.source or exists (
           select from app.former_publications x where x.publication = p.source)) as gone
  from app.publications p
  join app.publication_keys k on k.kind = p.kind and k.key = p.key
  join app.publications c on c.id = k.current
  left join app.published_files f on f.publication = p.source and f.name = %(file)s
 where p.id = %(publication)s::uuid
   and (%(platform)s::text is null or app.may_read(%(platform)s, split_part(k.key, '/', 1), k.public))

-- name: named_objects
-- The objects that must be in a backup: published files that jobs made or that have a checksum, and the results that were put aside.
select f.tier as area, f.key, f.size, f.sha256 from app.published_files f where f.sha256 is not null
 union all
select 'work', stored.reference ->> 'href', (stored.reference ->> 'size')::bigint, stored.reference ->> 'sha256'
  from (select o.reference from app.outcomes o join app.lanes l on l.id = o.lane where o.reference is not null
         union all
        select j.result -> 'anabranch:reference' from app.jobs j where j.result ? 'anabranch:reference') stored(reference);

-- name: pinned_files
-- The files of a publication that others can replace, with the versions that it shows.
select f.tier || '://' || f.key as address, f.version
  from app.published_files f where f.publication = %(publication)s::uuid and f.version is not null order by f.name;

-- name: publication_content
-- What a publication of a key showed, by its number, with its files; no row where it was a withdrawal, or its files are gone.
select p.body, coalesce(f.files, '[]') as files
  from app.publication_keys k
  join app.publications c on c.id = k.current and c.action <> 'withdraw'
  join app.publications n on n.kind = k.kind and n.key = k.key and n.number = %(number)s and n.action <> 'withdraw'
  join app.publications p on p.id = n.source
  left join lateral (
       select jsonb_agg(jsonb_build_object('publication', x.publication, 'name', x.name, 'address', x.tier || '://' || x.key,
                                           'media_type', x.media_type, 'size', x.size, 'sha256', x.sha256,
                                           'version', x.version)) as files
         from app.published_files x where x.publication = p.id) f on true
 where k.kind = 'item' and k.key = %(key)s
   and (%(platform)s::text is null or app.may_read(%(platform)s, split_part(k.key, '/', 1), k.public))
   and (p.id = c.source or exists (select from app.former_publications x where x.publication = p.id))
   and not app.is_revoked(p.id)

-- name: publications
-- The history of a key, the newest first.
select p.number, p.action::text, p.id::text as publication, case when p.action <> 'withdraw' then s.number end as shows,
       p.job_id, p.actor, p.reason, p.at, p.id = k.current as current,
       p.action <> 'withdraw' and ((p.source = c.source and c.action <> 'withdraw') or exists (
           select from app.former_publications x where x.publication = p.source)) as available
  from app.publication_keys k
  join app.publications c on c.id = k.current
  join app.publications p on p.kind = k.kind and p.key = k.key
  join app.publications s on s.id = p.source
 where k.kind = 'item' and k.key = %(key)s
   and (%(platform)s::text is null or app.may_read(%(platform)s, split_part(k.key, '/', 1), k.public))
   and (%(before)s::integer is null or p.number < %(before)s)
 order by p.number desc limit %(limit)s

-- name: published_files
-- Those of some objects that readers see now, in the order of their addresses, with the number of the former publication of
-- the same key that can still be read.
select f.publication::text, f.name, f.tier || '://' || f.key as address, f.media_type, f.size, f.sha256, f.version, p.key,
       case when c.number > 1 then (
           select max(o.number) from app.publications o join app.former_publications x on x.publication = o.source
            where o.kind = c.kind and o.key = c.key and o.number < c.number and o.action <> 'withdraw') end as predecessor
  from unnest(%(tiers)s::text[], %(keys)s::text[]) as wanted (tier, key)
  join app.published_files f using (tier, key)
  join app.publications p on p.id = f.publication
  join app.publication_keys k on k.kind = p.kind and k.key = p.key
  join app.publications c on c.id = k.current and c.source = p.id and c.action <> 'withdraw'
 where %(platform)s::text is null or app.may_read(%(platform)s, split_part(k.key, '/', 1), k.public)
 order by address, p.key

-- name: published_items
-- What is published, by collection and id, after one of them; all of it, or that of a job. Of a platform, each of its
-- collections is read by itself, so that nothing of others is.
select i.collection, i.id, p.number, p.source::text as publication, i.job_id, i.published_at, p.signing_key,
       app.item_versions(i.collection, i.id) as handlers
  from ((select c.* from app.catalog_items c
          where %(platform)s::text is null and (c.collection, c.id) > (%(after_collection)s, %(after_item)s)
            and (%(collection)s::text is null or c.collection = %(collection)s)
            and (%(job)s::text is null or c.job_id = %(job)s)
            and (%(item)s::text is null or c.id = %(item)s)
          order by c.collection, c.id limit %(limit)s)
        union all
        select c.*
          from app.visible_collections(%(platform)s) v
         cross join lateral (
               select x.* from app.catalog_items x
                where x.collection = v.collection and (x.collection, x.id) > (%(after_collection)s, %(after_item)s)
                  and (%(job)s::text is null or x.job_id = %(job)s)
                  and (%(item)s::text is null or x.id = %(item)s)
                order by x.id limit %(limit)s) c
         where %(platform)s::text is not null and (%(collection)s::text is null or v.collection = %(collection)s)) i
  join app.current_publications p on p.kind = 'item' and p.key = i.collection || '/' || i.id
 order by i.collection, i.id limit %(limit)s;

-- name: publishing_keys
-- The keys with publications that use some objects, former and withdrawn ones too, in the order of the objects' addresses.
select f.tier || '://' || f.key as address, p.key
  from unnest(%(tiers)s::text[], %(keys)s::text[]) as wanted (tier, key)
  join app.published_files f using (tier, key)
  join app.publications p on p.id = f.publication
 order by address, p.key

-- name: signing_keys
-- The public keys that signed manifests, the newest first.
select k.id, k.public_key, k.first_used_at, k.retired_at from app.signing_keys k order by k.first_used_at desc, k.id;

-- name: storage_marks
-- The marks of the areas of storage, and where the process found them that noted them.
select m.area, m.mark, m.url from app.storage_marks m;
