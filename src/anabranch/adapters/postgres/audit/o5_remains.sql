-- O5: a job is there or purged, never both; what remains of one is of lanes that are gone.
select t.job_id, 'it was purged, and is there' as what
  from app.tombstones t join app.jobs j on j.id = t.job
union all
select t.job_id, concat('lane ', r.lane, ' is to be cleared, and is there')
  from app.remains r join app.tombstones t on t.job = r.job join app.lanes l on l.id = r.lane
