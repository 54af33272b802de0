-- The cleanup nodes of a job that have begun nothing yet, by its definition; none where the job has begun nothing. A broken
-- definition has none (E10).
create function app.list_cleanup(_job bigint) returns text[] language plpgsql stable as $$
begin
    return array(
        select n.name
          from app.jobs j
          join app.workflows w on w.hash = j.workflow_hash
         cross join jsonb_path_query(w.definition, '$.nodes[*] ? (@.cleanup == true).name') d(name)
          join app.nodes n on n.job = j.id and n.name = d.name #>> '{}' and n.state = 'pending'
         where j.id = _job and j.state <> 'pending');
end;
$$;
