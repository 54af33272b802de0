-- The tombstones of a job by its id or the start of it: several mean that the start is not enough, and some of
-- them are shown.
select distinct on (t.job_id) t.* from app.tombstones t
 where t.job_id >= %(job_id)s and t.job_id < %(job_id)s || 'g'
 order by t.job_id, t.purged_at desc limit 6;
