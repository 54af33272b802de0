-- The calls of a delivery, in order. _platform: null for the operator.
create function app.list_webhook_attempts(_delivery bigint, _platform text default null)
returns table (attempt integer, at timestamptz, seconds real, status integer, error text, response text)
language sql stable as $$
    select app.set_platform_filter(coalesce(_platform, '*'));
    select a.attempt, a.at, a.seconds, a.status, a.error, a.response
      from app.webhook_attempts a where a.delivery = _delivery order by a.attempt;
$$;
