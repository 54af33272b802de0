-- Notifications: endpoints, an outbox of messages, their deliveries and the log of calls; and which jobs are watched.
create type app.webhook_format as enum ('standard', 'cloudevents');
create type app.delivery_state as enum ('pending', 'delivered', 'dead');

alter table app.jobs add column watched boolean not null default false;

create table app.webhook_endpoints (
    id uuid primary key,
    number bigint generated always as identity,
    platform text collate "C" not null,
    listed boolean not null,
    url text not null,
    authority text not null,
    events text[] not null,
    format app.webhook_format not null,
    description text not null,
    active boolean not null,
    secret bytea not null,
    former_secret bytea,
    former_until timestamptz,
    timeout_seconds integer not null check (timeout_seconds between 1 and 60),
    retries integer not null check (retries between 0 and 10),
    failures integer not null default 0,
    open_until timestamptz,
    disabled_reason text,
    made_at timestamptz not null,
    made_by text not null,
    changed_at timestamptz not null
);

create index webhook_endpoints_platform on app.webhook_endpoints (platform, number) where listed;
create index webhook_endpoints_callbacks on app.webhook_endpoints (changed_at) where not listed;

create table app.webhook_callbacks (
    subject text collate "C" not null,
    endpoint uuid not null references app.webhook_endpoints on delete cascade,
    primary key (subject, endpoint)
);

create index webhook_callbacks_endpoint on app.webhook_callbacks (endpoint);

create table app.webhook_messages (
    id uuid primary key,
    platform text collate "C" not null,
    subject text collate "C" not null,
    event text collate "C" not null,
    data jsonb not null,
    correlation_id text not null,
    made_at timestamptz not null
);

create table app.webhook_deliveries (
    id bigint generated always as identity primary key,
    message uuid not null references app.webhook_messages,
    endpoint uuid not null references app.webhook_endpoints on delete cascade,
    subject text collate "C" not null,
    state app.delivery_state not null,
    ready boolean,
    attempts integer not null default 0,
    tries integer not null default 0,
    due_at timestamptz not null,
    give_up_at timestamptz not null,
    session bigint,
    status integer,
    error text,
    ended_at timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index webhook_deliveries_message on app.webhook_deliveries (message);
create index webhook_deliveries_endpoint on app.webhook_deliveries (endpoint, id);
create index webhook_deliveries_state on app.webhook_deliveries (state, id);
create index webhook_deliveries_new on app.webhook_deliveries (id) where state = 'pending' and ready is null;
create index webhook_deliveries_open on app.webhook_deliveries (endpoint, subject, id) where state = 'pending';
create index webhook_deliveries_due on app.webhook_deliveries (endpoint, due_at, id)
    where state = 'pending' and ready and session is null;
create index webhook_deliveries_taken on app.webhook_deliveries (session) where session is not null;
create index webhook_deliveries_give_up on app.webhook_deliveries (give_up_at) where state = 'pending';
create index webhook_deliveries_ended on app.webhook_deliveries (ended_at) where ended_at is not null;

create table app.webhook_attempts (
    delivery bigint not null references app.webhook_deliveries on delete cascade,
    attempt integer not null,
    at timestamptz not null,
    seconds real not null,
    status integer,
    error text,
    response text,
    primary key (delivery, attempt)
);
