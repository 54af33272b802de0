-- Labels of jobs. A table of their own: processes of earlier releases read whole rows of app.jobs, and know no more columns.

create table app.labels (
    job bigint not null references app.jobs on delete cascade,
    name text collate "C" not null,
    value text collate "C" not null,
    primary key (job, name)
);

create index labels_value on app.labels (name, value, (-job));
