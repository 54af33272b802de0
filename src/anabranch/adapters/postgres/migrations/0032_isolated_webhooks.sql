-- Notifications are rows of a platform, like all that belongs to one: others don't see them, whatever a query asks for.
alter table app.webhook_callbacks add column platform text collate "C";
update app.webhook_callbacks c set platform = e.platform from app.webhook_endpoints e where e.id = c.endpoint;
alter table app.webhook_callbacks alter platform set not null;

alter table app.webhook_deliveries add column platform text collate "C";
update app.webhook_deliveries d set platform = e.platform from app.webhook_endpoints e where e.id = d.endpoint;
alter table app.webhook_deliveries alter platform set not null;

alter table app.webhook_attempts add column platform text collate "C";
update app.webhook_attempts a set platform = d.platform from app.webhook_deliveries d where d.id = a.delivery;
alter table app.webhook_attempts alter platform set not null;

-- A condition on a state is no condition of an index where rows are secured; it is one of a partial index.
create index webhook_deliveries_dead on app.webhook_deliveries (id) where state = 'dead';
drop index app.webhook_deliveries_state;
create index webhook_endpoints_open on app.webhook_endpoints (open_until) where open_until is not null;

do $$
declare
    _table text;
begin
    foreach _table in array '{endpoints,callbacks,messages,deliveries,attempts}'::text[] loop
        execute format('alter table app.webhook_%s enable row level security', _table);
        execute format('alter table app.webhook_%s force row level security', _table);
        execute format(
            'create policy own on app.webhook_%s using (current_setting(''anabranch.platform'', true) in (''*'', platform))',
            _table);
    end loop;
end;
$$;
