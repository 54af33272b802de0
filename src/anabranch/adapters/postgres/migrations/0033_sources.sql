-- Jobs of a platform read the folders that are listed for it, and no others. Each begins with the folder of its own name.

alter table app.platforms add column sources text[];
select set_config('anabranch.platform', '*', true);
update app.platforms set sources = array['bronze://' || id];
alter table app.platforms alter sources set not null;

-- Uploads of all platforms were in one folder, and nobody noted whose they are. A platform goes on reading those that its jobs
-- have named: they could read them, and an upload never changes.
create table app.former_uploads (
    platform text not null,
    key text collate "C" not null,
    primary key (platform, key)
);

insert into app.former_uploads (platform, key)
select distinct j.platform, substr(found.word #>> '{}', length('bronze://') + 1)
  from app.jobs j
 cross join lateral jsonb_path_query(
       j.parameters, 'strict $.** ? (@.type() == "string" && @ like_regex "^bronze://uploads/[0-9a-f]{64}/")') found(word)
 where j.platform not in ('', 'default');
