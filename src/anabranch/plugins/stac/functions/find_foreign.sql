-- Which of the given items of a collection belong to another platform than the job.
create function app.find_foreign(_collection text, _job_id text, _ids text[]) returns text[] language sql stable as $$
    select array(select x.id from unnest(_ids) x(id)
                   join app.publication_keys k on k.kind = 'item' and k.key = _collection || '/' || x.id and k.number > 0
                  where k.owner <> app.job_platform(_job_id));
$$;
