-- Publications: what readers see, with its history. Views stand where processes of earlier releases read tables.
-- Nobody publishes while the rows are copied.

lock table app.catalog_items, app.outputs, app.manifests, app.item_handlers in share row exclusive mode;

create type app.publication_action as enum ('publish', 'replace', 'rollback', 'restore', 'withdraw');

-- What readers see: a history for each key, which is only appended to. A key of kind `item` is collection/item. Its newest
-- publication is the current one; `withdraw` shows nothing. source: the publication whose content it shows or takes away,
-- itself where it brought some; only that one has a body, a manifest and files. Ids are random: a database that was
-- restored to an earlier point never gives one to other content. manifest is text, because its bytes are what was signed.
create table app.publications (
    id uuid primary key,
    kind text not null,
    key text collate "C" not null,
    number integer not null check (number > 0),
    action app.publication_action not null,
    source uuid not null references app.publications,
    job_id text collate "C",
    body jsonb,
    manifest text,
    signing_key text collate "C" references app.signing_keys,
    handlers jsonb,
    actor text not null,
    reason text,
    at timestamptz not null,
    unique (kind, key, number)
);

create index publications_job_id on app.publications (job_id);

-- Each key that was ever published: whose it is (null: nobody knows), its current publication and the last number. Every
-- action locks its row (P5).
create table app.publication_keys (
    kind text not null,
    key text collate "C" not null,
    owner text,
    current uuid references app.publications,
    number integer not null,
    primary key (kind, key)
);

-- The objects of a publication: what readers may fetch, and where it is.
create table app.published_files (
    publication uuid not null references app.publications,
    name text collate "C" not null,
    kind text not null,
    tier text not null,
    key text collate "C" not null,
    media_type text not null,
    size bigint not null check (size >= 0),
    sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
    primary key (publication, name)
);

create index published_files_object on app.published_files (tier, key);

-- The publications that brought content which is out of sight now, until retention removes it; withdrawn: it was taken
-- away, and not replaced.
create table app.former_publications (
    publication uuid primary key references app.publications,
    hidden_at timestamptz not null,
    withdrawn boolean not null
);

create index former_publications_hidden_at on app.former_publications (hidden_at);

-- The jobs whose publication of a key is out of sight, and the jobs that they are a part of: they do not answer for their
-- parameters any more (E15).
create table app.superseded_jobs (
    job_id text collate "C" not null,
    kind text not null,
    key text collate "C" not null,
    primary key (job_id, kind, key)
);

-- Objects that no publication uses any more, until retention has removed them.
create table app.expired_objects (
    tier text not null,
    key text collate "C" not null,
    primary key (tier, key)
);

-- What is published becomes the first publication of its key, by the job that published it.
with item as (
    select i.*, gen_random_uuid() as publication from app.catalog_items i),
made as (
    insert into app.publications (id, kind, key, number, action, source, job_id, body, manifest, signing_key, handlers,
                                  actor, at)
    select i.publication, 'item', i.collection || '/' || i.id, 1, 'publish', i.publication, i.job_id, i.document, m.envelope,
           m.signing_key, h.handlers, 'anabranch', i.published_at
      from item i
      left join app.manifests m on m.collection = i.collection and m.item = i.id
      left join lateral (
           select jsonb_object_agg(v.handler, v.versions) as handlers
             from (select x.handler, jsonb_agg(x.version order by x.version) as versions
                     from app.item_handlers x where x.collection = i.collection and x.item = i.id
                    group by x.handler) v) h on true
    returning id, key, job_id),
keyed as (
    insert into app.publication_keys (kind, key, owner, current, number)
    select 'item', m.key, coalesce(j.scope, t.scope), m.id, 1
      from made m
      left join app.jobs j on j.job_id = m.job_id and j.parent is null
      left join lateral (select x.scope from app.tombstones x where x.job_id = m.job_id limit 1) t on true)
insert into app.published_files (publication, name, kind, tier, key, media_type, size, sha256)
select m.id, o.name, o.kind, o.tier, o.key, o.media_type, o.size, o.sha256
  from app.outputs o join made m on m.key = o.collection || '/' || o.item;

drop table app.outputs, app.manifests;
