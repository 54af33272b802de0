-- Give an endpoint another secret; the former one signs beside it for a while. False: there is no such endpoint.
create function app.rotate_secret(
    _platform text, _id uuid, _secret bytea, _keep interval, _by text default null, _correlation_id text default null
) returns boolean
language plpgsql as $$
declare
    _owner text;
begin
    perform app.set_platform_filter(coalesce(_platform, '*'));
    update app.webhook_endpoints e
       set secret = _secret, former_secret = e.secret, former_until = app.now() + _keep, changed_at = app.now()
     where e.id = _id and e.listed returning e.platform into _owner;
    if _owner is not null then
        perform app.audit_change(_owner, _by, 'webhook.rotated', jsonb_build_object('endpoint', _id), _correlation_id);
    end if;
    return _owner is not null;
end;
$$;
