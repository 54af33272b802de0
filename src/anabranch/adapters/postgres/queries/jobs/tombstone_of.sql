-- The tombstone of a job that was found a moment ago, if it was purged meanwhile.
select t.* from app.tombstones t where t.job = %(job)s;
