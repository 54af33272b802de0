-- Outside a transaction: jobs are written while this is dropped. Open jobs are found by their state, as all others.
drop index concurrently if exists app.jobs_open;
