-- The workflow that a job runs and the hash of its definition, for the provenance of what it publishes.
create function app.find_origin(_job_id text) returns table (workflow text, workflow_hash text) language sql stable as $$
    select j.workflow, j.workflow_hash from app.jobs j where j.job_id = _job_id;
$$;
