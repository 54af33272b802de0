-- Add callbacks to a subject; the same one is stored once, and one that did not want to be called any more is called again,
-- since it is named again. The breaker of one that is called anyway stays as it is. Returns those that are new to the subject,
-- which is locked by the caller.
-- _callbacks: [{id, url, authority, events, format, secret, timeout_seconds, retries}, …], the secret sealed, in hex.
create function app.add_callbacks(_subject text, _platform text, _callbacks jsonb, _by text) returns uuid[]
language plpgsql as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _new uuid[];
begin
    perform app.set_platform_filter(_platform);
    insert into app.webhook_endpoints as e (id, platform, listed, url, authority, events, format, description, active, secret,
                                            timeout_seconds, retries, made_at, made_by, changed_at)
    select c.id, _platform, false, c.url, c.authority, c.events, c.format, '', true, decode(c.secret, 'hex'),
           c.timeout_seconds, c.retries, app.now(), coalesce(_by, ''), app.now()
      from jsonb_to_recordset(_callbacks) as c(
               id uuid, url text, authority text, events text[], format app.webhook_format, secret text,
               timeout_seconds integer, retries integer)
     order by c.id
    on conflict (id) do update
       set changed_at = app.now(), active = true, disabled_reason = null,
           failures = case when e.active then e.failures else 0 end,
           open_until = case when e.active then e.open_until end;
    with added as (
        insert into app.webhook_callbacks (subject, endpoint, platform)
        select _subject, c.id, _platform from jsonb_to_recordset(_callbacks) as c(id uuid) on conflict do nothing
        returning endpoint)
    select array_agg(a.endpoint) into _new from added a;
    perform app.set_platform_filter(_before);
    return coalesce(_new, '{}');
end;
$$;
