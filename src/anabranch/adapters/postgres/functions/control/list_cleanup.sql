-- The cleanup nodes of a job that have begun nothing yet, by its definition; none where the job has begun nothing.
create function app.list_cleanup(_job bigint) returns text[] language plpgsql stable as $$
begin
    return array(
        select n.name
          from app.jobs j
          join app.workflows w on w.hash = j.workflow_hash
         cross join jsonb_to_recordset(w.definition -> 'nodes') as d(name text, cleanup boolean)
          join app.nodes n on n.job = j.id and n.name = d.name and n.state = 'pending'
         where j.id = _job and j.state <> 'pending' and d.cleanup);
end;
$$;
