-- Whether two jobs are parts of one: the same job, or child jobs of it at any depth. Such jobs may use each other's outputs
-- before anything is published (P6).
create function app.is_related(_job_id text, _other text) returns boolean language sql stable as $$
    with recursive above(id, parent, job_id) as (
        select j.id, j.parent, j.job_id from app.jobs j where j.job_id in (_job_id, _other)
        union all
        select p.id, p.parent, a.job_id from above a join app.jobs p on p.id = a.parent),
    roots as (
        select a.id, a.job_id from above a where a.parent is null)
    select exists (select from roots a join roots b using (id) where a.job_id = _job_id and b.job_id = _other);
$$;
