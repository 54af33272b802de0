-- The publications that jobs found in sight with the content that they would have published, and left as they are: such a
-- job answers for its parameters only while they are in sight, like the job that published them (E15).
create table app.kept_publications (
    publication uuid references app.publications,
    job_id text collate "C" not null,
    primary key (publication, job_id)
);

create index kept_publications_job_id on app.kept_publications (job_id);
