-- The histogram of jobs counts how many ended, too.
drop table app.job_endings;
drop table app.ended_jobs;
