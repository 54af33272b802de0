-- Deliveries, the newest first, before a cursor; or the one with this id. _platform: null for the operator. Callbacks of jobs
-- are among them.
create function app.list_deliveries(
    _platform text, _id bigint, _endpoint uuid, _subject text, _event text, _state app.delivery_state, _before bigint,
    _limit integer
) returns table (
    id bigint, message_id text, endpoint_id text, platform text, url text, event text, subject text, status app.delivery_state,
    attempts integer, response_status integer, error text, correlation_id text, made_at timestamptz, due_at timestamptz,
    ended_at timestamptz
) language sql stable as $$
    select app.set_platform_filter(coalesce(_platform, '*'));
    select d.id, m.id::text, e.id::text, e.platform, e.url, m.event, m.subject, d.state, d.attempts, d.status, d.error,
           m.correlation_id, m.made_at, case when d.state = 'pending' then d.due_at end, d.ended_at
      from app.webhook_deliveries d
      join app.webhook_endpoints e on e.id = d.endpoint
      join app.webhook_messages m on m.id = d.message
     where (_platform is null or e.platform = _platform) and (_id is null or d.id = _id)
       and (_endpoint is null or d.endpoint = _endpoint) and (_subject is null or d.subject = _subject)
       and (_event is null or m.event = _event) and (_state is null or d.state = _state)
       and (_before is null or d.id < _before)
     order by d.id desc limit _limit;
$$;
