-- Change what is given of an endpoint, null leaves it. One that is activated, or has another address, begins without
-- failures. _platform: null for the operator. False: there is no such endpoint.
create function app.change_endpoint(
    _platform text, _id uuid, _url text, _authority text, _events text[], _format app.webhook_format,
    _description text, _active boolean, _timeout_seconds integer, _retries integer, _by text default null,
    _correlation_id text default null
) returns boolean language plpgsql as $$
declare
    _owner text;
begin
    perform app.set_platform_filter(coalesce(_platform, '*'));
    update app.webhook_endpoints e
       set url = coalesce(_url, e.url), authority = coalesce(_authority, e.authority),
           events = coalesce(_events, e.events), format = coalesce(_format, e.format),
           description = coalesce(_description, e.description), active = coalesce(_active, e.active),
           timeout_seconds = coalesce(_timeout_seconds, e.timeout_seconds), retries = coalesce(_retries, e.retries),
           failures = case when _active or _url is not null then 0 else e.failures end,
           open_until = case when _active or _url is not null then null else e.open_until end,
           disabled_reason = case when _active then null else e.disabled_reason end, changed_at = app.now()
     where e.id = _id and e.listed returning e.platform into _owner;
    if not found then
        return false;
    end if;
    perform app.wake_deliverer();
    perform app.audit_change(_owner, _by, 'webhook.changed', jsonb_strip_nulls(jsonb_build_object(
        'endpoint', _id, 'host', _authority, 'events', _events, 'format', _format, 'active', _active,
        'timeout_seconds', _timeout_seconds, 'retries', _retries)), _correlation_id);
    return true;
end;
$$;
