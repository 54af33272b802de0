-- Where a job stands, by its id or the start of it: two rows mean that the start is not enough. Its parameters and its
-- result are not read, for they may be large.
select j.id as job, j.state, j.last_event from app.jobs j
 where j.job_id >= %(job_id)s and j.job_id < %(job_id)s || 'g'
 order by j.job_id limit 2;
