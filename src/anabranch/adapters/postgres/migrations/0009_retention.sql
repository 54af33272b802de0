-- Jobs that ended long ago go; a tombstone stays for a while. What their tasks left goes lane by lane.
create table app.tombstones (
    job bigint primary key,
    job_id text collate "C" not null,
    identity text not null,
    ordinal integer not null,
    scope text not null,
    workflow text not null,
    state app.job_state not null,
    created_at timestamptz not null,
    finished_at timestamptz not null,
    purged_at timestamptz not null
);

create index tombstones_job_id on app.tombstones (job_id);
create index tombstones_identity on app.tombstones (identity, ordinal);
create index tombstones_purged_at on app.tombstones (purged_at);

create table app.remains (
    lane bigint primary key,
    job bigint not null references app.tombstones,
    cleared integer not null
);

create index remains_job on app.remains (job);

-- Definitions that no job names are found, and removed, without reading every job.
create index jobs_workflow_hash on app.jobs (workflow_hash);

-- Slices of large tables are removed day by day: their space comes back sooner, in smaller steps.
alter table app.items set (autovacuum_vacuum_scale_factor = 0.02);
alter table app.outcomes set (autovacuum_vacuum_scale_factor = 0.02);
alter table app.attempts set (autovacuum_vacuum_scale_factor = 0.02);
alter table app.traces set (autovacuum_vacuum_scale_factor = 0.02);
