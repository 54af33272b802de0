-- Where a job stands, and why it failed.
select state, error ->> 'message' from app.jobs where job_id = %(job_id)s;
