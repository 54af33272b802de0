-- Announce how a job ended; with _only, to these endpoints alone.
create function app.announce_job(_job app.jobs, _only uuid[] default null) returns integer language sql as $$
    select app.announce(_job.platform, _job.job_id, 'job.' || _job.state, app.describe_ended_job(_job), _job.correlation_id,
                        _only => _only);
$$;
