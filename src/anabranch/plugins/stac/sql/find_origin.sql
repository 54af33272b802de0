-- The workflow of a job.
select * from app.find_origin(%(job_id)s)
