-- Call these callbacks when a job ends; those that are new to it at once, if it has ended. The job's row is locked first: so
-- its end is seen here, or these callbacks by its end.
-- _callbacks: [{id, url, authority, events, format, secret, timeout_seconds, retries}, …], the secret sealed, in hex.
create function app.watch_job(_job_id text, _platform text, _callbacks jsonb, _by text) returns void language plpgsql as $$
declare
    _job app.jobs;
    _new uuid[];
begin
    select j.* into _job from app.jobs j where j.job_id = _job_id for no key update;
    if not found then
        return;
    end if;
    insert into app.webhook_endpoints (id, platform, listed, url, authority, events, format, description, active, secret,
                                       timeout_seconds, retries, made_at, made_by, changed_at)
    select c.id, _platform, false, c.url, c.authority, c.events, c.format, '', true, decode(c.secret, 'hex'),
           c.timeout_seconds, c.retries, app.now(), coalesce(_by, ''), app.now()
      from jsonb_to_recordset(_callbacks) as c(
               id uuid, url text, authority text, events text[], format app.webhook_format, secret text,
               timeout_seconds integer, retries integer)
     order by c.id
    on conflict (id) do update set changed_at = app.now();
    with added as (
        insert into app.webhook_callbacks (subject, endpoint)
        select _job_id, c.id from jsonb_to_recordset(_callbacks) as c(id uuid) on conflict do nothing
        returning endpoint)
    select array_agg(a.endpoint) into _new from added a;
    update app.jobs set watched = true where id = _job.id and not watched;
    if _job.state in ('completed', 'failed', 'cancelled') and _new is not null then
        perform app.announce_job(_job, _new);
    end if;
end;
$$;
