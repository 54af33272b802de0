-- Outside a transaction: jobs are written while these are made. Jobs by state, and by workflow and state, the newest first.
create index concurrently if not exists jobs_state on app.jobs (state, (-id));
create index concurrently if not exists jobs_workflow on app.jobs (workflow, state, (-id));
