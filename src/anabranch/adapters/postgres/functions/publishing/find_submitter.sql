-- Who submitted the root of a job: whose its publications are, who acts by it (P7), and whether that may withdraw (S6): an
-- admin may, by the scope that its first event has. No row where there is no such job.
create function app.find_submitter(_job_id text) returns table (owner text, actor text, may_withdraw boolean)
language sql stable as $$
    select l.platform, coalesce(e.data ->> 'by', l.platform), coalesce(e.data ->> 'scope' = 'admin', false)
      from (select x.* from app.job_line(_job_id) x order by x.depth desc limit 1) l
      left join app.events e on e.job = l.id and e.seq = 1;
$$;
