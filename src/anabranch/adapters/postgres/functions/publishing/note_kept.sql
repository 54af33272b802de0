-- Note that a job leaves publications as they are: it answers for its parameters only while they are in sight (E15). Of the
-- jobs with the same parameters only the newest ever answers: what the earlier ones noted of these publications is removed,
-- so that repeats add no rows for ever (O5). Jobs that are a part of others stay noted, for those answer by other parameters.
create function app.note_kept(_job_id text, _publications uuid[]) returns void language sql as $$
    insert into app.kept_publications (publication, job_id)
    select p, _job_id from unnest(_publications) p
    on conflict do nothing;
    delete from app.kept_publications k
     using app.jobs newest join app.jobs earlier on earlier.identity = newest.identity and earlier.ordinal < newest.ordinal
     where newest.job_id = _job_id and earlier.parent is null and k.job_id = earlier.job_id
       and k.publication = any(_publications);
$$;
