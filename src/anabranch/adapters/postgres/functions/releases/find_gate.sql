-- The gate that a job waits at; null where there is none.
create function app.find_gate(_job_id text) returns text language sql stable as $$
    select w.node
      from app.jobs j
      join app.waits w on w.job = j.id
      join app.workflows f on f.hash = j.workflow_hash
     cross join lateral jsonb_to_recordset(f.definition -> 'nodes') n(name text, kind text)
     where j.job_id = _job_id and n.name = w.node and n.kind = 'gate'
     order by w.node limit 1;
$$;
