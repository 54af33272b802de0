-- For processes of earlier releases: the workflow that a job runs, the hash of its definition and when it was made: the provenance of what it publishes.
create function app.find_origin(_job_id text)
returns table (workflow text, workflow_hash text, created_at timestamptz) language sql stable as $$
    select j.workflow, j.workflow_hash, j.created_at from app.jobs j where j.job_id = _job_id;
$$;
