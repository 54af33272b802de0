-- Give an endpoint another secret; the former one signs beside it for a while. False: there is no such endpoint.
create function app.rotate_secret(_platform text, _id uuid, _secret bytea, _keep interval) returns boolean
language plpgsql as $$
begin
    perform app.see(coalesce(_platform, '*'));
    update app.webhook_endpoints e
       set secret = _secret, former_secret = e.secret, former_until = app.now() + _keep, changed_at = app.now()
     where e.id = _id and e.listed and e.platform = coalesce(_platform, e.platform);
    return found;
end;
$$;
