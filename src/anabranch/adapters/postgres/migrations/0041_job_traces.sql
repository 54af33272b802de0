create table app.job_traces (
    job bigint primary key references app.jobs on delete cascade,
    traceparent text not null
);
