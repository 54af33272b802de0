-- Ended jobs are counted by workflow and state: each end is a row, which the sweeper adds to a sum.
create table app.job_endings (
    workflow text not null,
    state app.job_state not null,
    id bigint generated always as identity
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

create table app.ended_jobs (
    workflow text not null,
    state app.job_state not null,
    jobs bigint not null,
    primary key (workflow, state)
);
