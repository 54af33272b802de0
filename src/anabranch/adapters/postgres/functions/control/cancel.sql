-- Cancel a job; the status that it has then.
create function app.cancel(_job_id text, _reason text, _by text default null) returns app.job_state language sql as $$
    select c.state from app.cancel_job(_job_id, _reason, _by) c;
$$;
