-- For processes of earlier releases: note that a job leaves publications of a collection's items as they are, because it found its own content in them. What
-- went out of sight after it looked is noted as such, so that the job does not answer for its parameters (E15).
create function app.keep_publications(_collection text, _job_id text, _publications uuid[])
returns void language plpgsql as $$
begin
    perform app.lock_collection(_collection);
    perform app.note_kept(_job_id, array(
        select p.id from app.publications p
         where p.id = any(_publications) and p.kind = 'item' and split_part(p.key, '/', 1) = _collection
           and p.job_id is distinct from _job_id));
    insert into app.superseded_jobs (job_id, kind, key)
    select l.job_id, p.kind, p.key
      from app.publications p cross join lateral app.job_line(_job_id) l
     where p.id = any(_publications) and p.kind = 'item' and split_part(p.key, '/', 1) = _collection
       and not exists (select from app.current_publications c where c.kind = p.kind and c.key = p.key and c.source = p.id)
    on conflict do nothing;
end;
$$;
