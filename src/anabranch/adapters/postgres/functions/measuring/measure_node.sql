-- Count how long a node took that ends now; one that was never opened took no time.
create function app.measure_node(_job bigint, _name text) returns void language sql as $$
    select app.measure('node', j.workflow, n.name, app.now() - n.opened_at)
      from app.nodes n join app.jobs j on j.id = n.job
     where n.job = _job and n.name = _name and n.opened_at is not null;
$$;
