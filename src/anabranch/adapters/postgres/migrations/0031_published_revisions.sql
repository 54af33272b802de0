-- Publications know the revision whose job made their content, also after that job was purged. What is open of a platform is
-- counted by an index.

create table app.published_revisions (
    publication uuid primary key references app.publications,
    release_id text collate "C" not null,
    revision integer not null,
    platform text collate "C" not null references app.platforms,
    foreign key (release_id, revision) references app.revisions
);

create index published_revisions_release on app.published_revisions (release_id, revision);

alter table app.published_revisions enable row level security;
alter table app.published_revisions force row level security;
create policy own on app.published_revisions using (current_setting('anabranch.platform', true) in ('*', platform));

select set_config('anabranch.platform', '*', true);
with recursive line(publication, parent, job_id) as (
    select p.id, j.parent, p.job_id  -- jobs are purged, and their ids stay
      from app.publications p left join app.jobs j on j.job_id = p.job_id
     where p.kind = 'item' and p.source = p.id and exists (select from app.revisions)
    union all
    select l.publication, j.parent, j.job_id from line l join app.jobs j on j.id = l.parent)
insert into app.published_revisions (publication, release_id, revision, platform)
select l.publication, v.release_id, v.revision, v.platform from line l join app.revisions v on v.job_id = l.job_id;

create index revisions_open on app.revisions (platform, release_id)
    where approval_status = 'pending_review' and processing_status <> 'failed';
