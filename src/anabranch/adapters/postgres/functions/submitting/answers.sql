-- Whether a job answers for a submission with the same parameters (E15): it goes on; or it is completed, what it published
-- is in sight, and the workflow that is submitted, _hash, does not say rerun.
create function app.answers(_job_id text, _state app.job_state, _hash text) returns boolean language sql stable as $$
    select _state not in ('failed', 'cancelled', 'completed')
        or _state = 'completed'
           and not exists (select from app.superseded_jobs s where s.job_id = _job_id)
           and not exists (select from app.workflows w where w.hash = _hash and w.definition @> '{"rerun": true}');
$$;
