-- Keys, jobs and collections belong to platforms. What belonged to `local`, the person at the machine, belongs to `default`.
--
-- A job's id is a hash over its workflow, parameters and scope. Jobs that exist keep their ids, for they were given out. So
-- a job of `local` is found by its id, its labels and its idempotency key as before, and does not answer when its
-- parameters are submitted again: those have the scope `default` now, which is another identity, and make one new job.

alter table app.keys rename column owner to platform;
update app.keys set platform = 'default' where platform = 'local';

-- A child's scope is its place in its parent; its platform is its root's. Empty: nobody's, where the root is unknown.
alter table app.jobs add column platform text;
update app.jobs set scope = 'default' where scope = 'local';
with recursive line(id, platform) as (
    select j.id, j.scope from app.jobs j where j.parent is null
    union all
    select t.job, case t.scope when 'local' then 'default' else t.scope end from app.tombstones t where t.scope not like 'job:%'
    union all
    select c.id, l.platform from line l join app.jobs c on c.parent = l.id)
update app.jobs j set platform = l.platform from line l where l.id = j.id;
update app.jobs set platform = '' where platform is null;
alter table app.jobs alter platform set not null;

create index jobs_platform on app.jobs (platform, state, (-id));
create index jobs_platform_workflow on app.jobs (platform, workflow, state, (-id));

update app.idempotency_keys set scope = 'default' where scope = 'local';

alter table app.tombstones rename column scope to platform;
update app.tombstones set platform = 'default' where platform = 'local';

update app.publication_keys set owner = 'default' where owner = 'local';
-- A collection that nobody was noted for belongs to whom most of its items belong to.
insert into app.publication_keys (kind, key, owner, number)
select 'collection', c.id, coalesce((
           select k.owner from app.publication_keys k
            where k.kind = 'item' and split_part(k.key, '/', 1) = c.id and k.owner is not null
            group by k.owner order by count(*) desc, k.owner limit 1), 'default'), 0
  from app.collections c
on conflict (kind, key) do update set owner = coalesce(app.publication_keys.owner, excluded.owner);

alter table app.publication_keys add column public boolean not null default false;
create index publication_keys_owner on app.publication_keys (owner, key) where kind = 'collection';
create index publication_keys_public on app.publication_keys (key) where public;

create table app.collection_writers (
    collection text collate "C" not null,
    platform text not null,
    added_by text not null,
    added_at timestamptz not null,
    primary key (collection, platform)
);

create index collection_writers_platform on app.collection_writers (platform, collection);

-- Who has published into a collection of another goes on to.
insert into app.collection_writers (collection, platform, added_by, added_at)
select distinct c.key, i.owner, 'anabranch', now()
  from app.publication_keys c
  join app.publication_keys i on i.kind = 'item' and split_part(i.key, '/', 1) = c.key and i.owner <> c.owner
 where c.kind = 'collection';
