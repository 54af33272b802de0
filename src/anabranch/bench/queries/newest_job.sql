-- The newest job's number: those of a run come after it.
select coalesce(max(id), 0) from app.jobs;
