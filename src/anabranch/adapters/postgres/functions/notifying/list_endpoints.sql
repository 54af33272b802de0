-- Endpoints as they may be shown, the newest first, before a cursor; or the one with this id. _platform: null for the operator,
-- for which processes of earlier releases say `*`.
create function app.list_endpoints(_platform text, _id uuid, _before bigint, _limit integer)
returns table (
    number bigint, id text, platform text, url text, events text[], format app.webhook_format, description text,
    active boolean, timeout_seconds integer, retries integer, failures integer, open_until timestamptz,
    disabled_reason text, rotating_until timestamptz, pending bigint, dead bigint, made_at timestamptz, made_by text,
    changed_at timestamptz
) language sql stable as $$
    select app.set_platform_filter(coalesce(_platform, '*'));
    select e.number, e.id::text, e.platform, e.url, e.events, e.format, e.description, e.active, e.timeout_seconds,
           e.retries, e.failures, case when e.open_until > app.now() then e.open_until end, e.disabled_reason,
           case when e.former_until > app.now() then e.former_until end,
           (select count(*) from (select from app.webhook_deliveries d
                                   where d.endpoint = e.id and d.state = 'pending' limit 10000) p),
           (select count(*) from (select from app.webhook_deliveries d
                                   where d.endpoint = e.id and d.state = 'dead' limit 10000) p),
           e.made_at, e.made_by, e.changed_at
      from app.webhook_endpoints e
     where e.listed and (coalesce(_platform, '*') = '*' or e.platform = _platform) and (_id is null or e.id = _id)
       and (_before is null or e.number < _before)
     order by e.number desc limit _limit;
$$;
