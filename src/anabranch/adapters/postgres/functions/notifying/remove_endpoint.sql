-- Remove an endpoint with its deliveries, their messages and log. False: there is no such endpoint.
create function app.remove_endpoint(
    _platform text, _id uuid, _by text default null, _correlation_id text default null
) returns boolean language plpgsql as $$
declare
    _messages uuid[];
    _e record;
begin
    perform app.set_platform_filter(coalesce(_platform, '*'));
    perform app.lock_deliveries();
    select e.platform, e.authority into _e from app.webhook_endpoints e where e.id = _id and e.listed for update;
    if not found then
        return false;
    end if;
    select array_agg(d.message) into _messages from app.webhook_deliveries d where d.endpoint = _id;
    delete from app.webhook_endpoints e where e.id = _id;
    delete from app.webhook_messages m
     where m.id = any(_messages) and not exists (select from app.webhook_deliveries d where d.message = m.id);
    perform app.audit_change(_e.platform, _by, 'webhook.removed',
                              jsonb_build_object('endpoint', _id, 'host', _e.authority), _correlation_id);
    return true;
end;
$$;
