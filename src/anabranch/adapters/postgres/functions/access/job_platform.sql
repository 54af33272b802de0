-- The platform of a job; null where there is no such job.
create function app.job_platform(_job_id text) returns text language sql stable as $$
    select j.platform from app.jobs j where j.job_id = _job_id;
$$;
