-- The figures of deliveries for metrics, of all platforms: bounded and by indexes. oldest_seconds: since the oldest delivery
-- that waits was announced or replayed.
create function app.measure_deliveries()
returns table (waiting bigint, dead bigint, oldest_seconds float, open_breakers bigint) language sql stable as $$
    select app.set_platform_filter('*');
    select (select count(*) from (select from app.webhook_deliveries d where d.state = 'pending' limit 100000) p),
           (select count(*) from (select from app.webhook_deliveries d where d.state = 'dead' limit 100000) p),
           coalesce(extract(epoch from app.now() + interval '1 day' - (
               select min(d.give_up_at) from app.webhook_deliveries d where d.state = 'pending'))::float, 0),
           (select count(*) from app.webhook_endpoints e where e.active and e.open_until > app.now());
$$;
