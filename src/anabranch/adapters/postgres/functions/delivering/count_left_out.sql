-- How many dead letters that fit a replay leaves out, because their endpoint is not active; those behind 10,000 are not counted.
create function app.count_left_out(_platform text, _endpoint uuid, _subject text, _event text) returns integer
language sql stable as $$
    select app.set_platform_filter(coalesce(_platform, '*'));
    select count(*)::integer
      from (select from app.webhook_endpoints e
              join app.webhook_deliveries d on d.endpoint = e.id and d.state = 'dead'
              join app.webhook_messages m on m.id = d.message
             where e.listed and not e.active and (_platform is null or e.platform = _platform)
               and (_endpoint is null or e.id = _endpoint) and (_subject is null or d.subject = _subject)
               and (_event is null or m.event = _event) limit 10000) d;
$$;
