-- Change what is given of an endpoint, null leaves it. One that is activated, or has another address, begins without
-- failures. _platform: null for the operator. False: there is no such endpoint.
create function app.change_endpoint(
    _platform text, _id uuid, _url text, _authority text, _events text[], _format app.webhook_format,
    _description text, _active boolean, _timeout_seconds integer, _retries integer
) returns boolean language plpgsql as $$
begin
    perform app.see(coalesce(_platform, '*'));
    update app.webhook_endpoints e
       set url = coalesce(_url, e.url), authority = coalesce(_authority, e.authority),
           events = coalesce(_events, e.events), format = coalesce(_format, e.format),
           description = coalesce(_description, e.description), active = coalesce(_active, e.active),
           timeout_seconds = coalesce(_timeout_seconds, e.timeout_seconds), retries = coalesce(_retries, e.retries),
           failures = case when _active or _url is not null then 0 else e.failures end,
           open_until = case when _active or _url is not null then null else e.open_until end,
           disabled_reason = case when _active then null else e.disabled_reason end, changed_at = app.now()
     where e.id = _id and e.listed and e.platform = coalesce(_platform, e.platform);
    if found then
        perform app.ring_deliverer();
    end if;
    return found;
end;
$$;
