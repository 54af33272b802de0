-- Write a test message for an endpoint, whichever events it wants, and let the next call through its breaker. Returns the
-- delivery; null: there is no such endpoint, or it is not active.
create function app.test_endpoint(_platform text, _id uuid, _correlation_id text) returns bigint language plpgsql as $$
declare
    _subject text := 'test:' || gen_random_uuid();
    _owner text;
begin
    perform app.set_platform_filter(coalesce(_platform, '*'));
    update app.webhook_endpoints e set open_until = null
     where e.id = _id and e.listed and e.active and e.platform = coalesce(_platform, e.platform)
    returning e.platform into _owner;
    if not found then
        return null;
    end if;
    perform app.announce(_owner, _subject, 'webhook.test', '{"status": "test"}', _correlation_id, _only => array[_id]);
    return (select d.id from app.webhook_deliveries d where d.endpoint = _id and d.subject = _subject and d.state = 'pending');
end;
$$;
