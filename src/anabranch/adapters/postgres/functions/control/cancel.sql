-- Cancel a job where nobody asks who was first: for the engine itself, and for processes of the last release.
create function app.cancel(_job_id text, _reason text, _by text default null) returns app.job_state language sql as $$
    select c.state from app.cancel_job(_job_id, _reason, _by) c;
$$;
