-- The ids of jobs that begin alike, and one more than is shown of them.
select j.job_id from app.jobs j
 where j.job_id >= %(job_id)s and j.job_id < %(job_id)s || 'g'
 order by j.job_id limit 6;
