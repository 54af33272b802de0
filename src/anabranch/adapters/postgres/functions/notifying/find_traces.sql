-- The traces that deliveries belong to: those of the jobs that their messages are about.
create function app.find_traces(_deliveries bigint[]) returns table (delivery bigint, traceparent text)
language plpgsql as $$
begin
    perform app.set_platform_filter('*');
    return query
    select d.id, t.traceparent
      from app.webhook_deliveries d
      join app.webhook_messages m on m.id = d.message
      join app.jobs j on j.job_id = m.data ->> 'job_id'
      join app.job_traces t on t.job = j.id
     where d.id = any(_deliveries);
end;
$$;
