-- The id of the job that runs another.
select p.job_id from app.jobs p where p.id = %(parent)s;
