-- Purged jobs after _after that have left something, in order.
create function app.find_remains(_after bigint, _limit integer) returns table (job bigint, job_id text)
language sql stable as $$
    select t.job, t.job_id
      from (select distinct r.job from app.remains r where r.job > _after order by r.job limit _limit) left_by
      join app.tombstones t using (job) order by t.job;
$$;
