-- Whether a job may publish a key: it has no owner yet, or the submitter of the job is.
create function app.may_publish(_job_id text, _kind text, _key text) returns boolean language sql stable as $$
    select not exists (
        select from app.publication_keys k cross join app.find_submitter(_job_id) s
         where k.kind = _kind and k.key = _key and k.owner <> s.owner);
$$;
