-- Who submitted the root of a job: whose its publications are, who acts by it (P7), and whether that may withdraw (S6). No
-- row where there is no such job.
create function app.find_submitter(_job_id text) returns table (owner text, actor text, may_withdraw boolean)
language sql stable as $$
    select l.platform, coalesce(e.data ->> 'by', l.platform),
           by_key.id is null or exists (select from app.keys k where k.key_id = by_key.id and k.scope = 'admin')
      from (select x.* from app.job_line(_job_id) x order by x.depth desc limit 1) l
      left join app.events e on e.job = l.id and e.seq = 1
      cross join lateral (select substring(e.data ->> 'by' from '\(([^()]*)\)$') as id) by_key;
$$;
