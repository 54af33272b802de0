-- The rows of those of these tables that a job has loaded, as a query; null where there are none.
create function app.draft_query(_job_id text, _tables text[]) returns text language sql stable as $$
    select string_agg(format('select * from geo.%I', t.name), ' union all ' order by t.name)
      from app.layer_tables t where t.job_id = _job_id and t.name = any(_tables) and t.rows is not null;
$$;
