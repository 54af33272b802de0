-- Remove an endpoint with its deliveries, their messages and log. False: there is no such endpoint.
create function app.remove_endpoint(_platform text, _id uuid) returns boolean language plpgsql as $$
declare
    _messages uuid[];
begin
    perform app.see(coalesce(_platform, '*'));
    perform app.lock_deliveries();
    perform from app.webhook_endpoints e
      where e.id = _id and e.listed and e.platform = coalesce(_platform, e.platform) for update;
    if not found then
        return false;
    end if;
    select array_agg(d.message) into _messages from app.webhook_deliveries d where d.endpoint = _id;
    delete from app.webhook_endpoints e where e.id = _id;
    delete from app.webhook_messages m
     where m.id = any(_messages) and not exists (select from app.webhook_deliveries d where d.message = m.id);
    return true;
end;
$$;
