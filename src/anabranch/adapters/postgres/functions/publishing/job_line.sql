-- A job and the jobs that it is a part of, up to its root, which comes last.
create function app.job_line(_job_id text) returns table (id bigint, job_id text, platform text, depth integer)
language sql stable as $$
    with recursive line(id, parent, job_id, platform, depth) as (
        select j.id, j.parent, j.job_id, j.platform, 0 from app.jobs j where j.job_id = _job_id
        union all
        select p.id, p.parent, p.job_id, p.platform, l.depth + 1 from line l join app.jobs p on p.id = l.parent)
    select l.id, l.job_id, l.platform, l.depth from line l order by l.depth;
$$;
