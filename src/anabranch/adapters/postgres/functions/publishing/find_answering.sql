-- The jobs that answer for their parameters only while a publication is in sight (E15): the one that made it, those that
-- found it as they would have made it, and all that these are a part of.
create function app.find_answering(_publication uuid) returns table (job_id text) language sql stable as $$
    select l.job_id
      from (select p.job_id from app.publications p where p.id = _publication
            union
            select k.job_id from app.kept_publications k where k.publication = _publication) j
     cross join lateral app.job_line(j.job_id) l;
$$;
