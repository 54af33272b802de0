-- How many rows a table of ours has that a job copied from a user's; null where it has copied none. It was published in the
-- same transaction.
create function app.find_adopted(_table text, _job_id text) returns bigint language sql stable as $$
    select t.rows from app.layer_tables t where t.name = _table and t.job_id = _job_id;
$$;
