-- A job by its id or the start of it: two rows mean that the start is not enough.
select j.* from app.jobs j
 where j.job_id >= %(job_id)s and j.job_id < %(job_id)s || 'g'
 order by j.job_id limit 2;
