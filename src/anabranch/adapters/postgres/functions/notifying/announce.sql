-- Write a message to the outbox, with a delivery for each endpoint that wants it, in the transaction of what happened (P9):
-- the platform's endpoints, and the callbacks of the subject and of those in _for. With _only, these endpoints alone.
-- Messages of one subject reach an endpoint in their order, so callers hold a lock on it: a job's row, or that of
-- app.announce_release. Without an endpoint there is no message. Returns how many deliveries there are.
create function app.announce(
    _platform text, _subject text, _event text, _data jsonb, _correlation_id text, _for text[] default '{}',
    _only uuid[] default null
) returns integer language plpgsql as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _wanted uuid[];
    _message uuid := gen_random_uuid();
begin
    perform app.set_platform_filter('*');
    select array_agg(e.id order by e.number) into _wanted
      from app.webhook_endpoints e
      join (select x.id from app.webhook_endpoints x where _only is null and x.listed and x.platform = _platform
             union select c.endpoint from app.webhook_callbacks c where _only is null and c.subject = any(_subject || _for)
             union select unnest(_only)) candidate using (id)
     where e.active and (_event = 'webhook.test' or app.wants_event(e.events, _event));
    if _wanted is not null then
        insert into app.webhook_messages (id, platform, subject, event, data, correlation_id, made_at)
        values (_message, _platform, _subject, _event, _data, _correlation_id, app.now());
        insert into app.webhook_deliveries (message, endpoint, platform, subject, state, due_at, give_up_at)
        select _message, w.endpoint, _platform, _subject, 'pending', app.now(), app.now() + interval '1 day'
          from unnest(_wanted) with ordinality as w(endpoint, place) order by w.place;
        perform app.wake_deliverer();
    end if;
    perform app.set_platform_filter(_before);
    return coalesce(cardinality(_wanted), 0);
end;
$$;
