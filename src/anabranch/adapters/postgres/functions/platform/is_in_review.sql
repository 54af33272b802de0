-- Whether a job waits at a gate that was not answered, and whose time is not up: what it made can be previewed (P6).
create function app.is_in_review(_job_id text) returns boolean language sql stable as $$
    select exists (
        select from app.jobs j
          join app.waits w on w.job = j.id
          join app.workflows f on f.hash = j.workflow_hash
         cross join lateral jsonb_to_recordset(f.definition -> 'nodes') n(name text, kind text)
         where j.job_id = _job_id and j.state = 'waiting' and n.name = w.node and n.kind = 'gate'
           and (w.until is null or w.until > app.now())
           and not exists (select from app.signals s
                            where s.job = w.job and s.node = w.node and s.generation = w.generation));
$$;
