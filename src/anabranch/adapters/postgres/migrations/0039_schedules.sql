-- Schedules and their ticks; and the times of the tick that made a job.
create type app.schedule_origin as enum ('workflow', 'api');
create type app.schedule_overlap as enum ('skip', 'queue', 'cancel_previous');
create type app.schedule_catch_up as enum ('none', 'latest', 'all');
create type app.tick_kind as enum ('regular', 'manual', 'backfill');
create type app.tick_state as enum ('waiting', 'submitted', 'skipped', 'missed', 'failed');

alter table app.jobs add column tick jsonb;

create table app.schedules (
    id bigint generated always as identity primary key,
    platform text collate "C" not null,
    name text collate "C" not null,
    origin app.schedule_origin not null,
    workflow text not null,
    workflow_hash text not null references app.workflows,
    cron text not null,
    timezone text not null,
    inputs jsonb not null,
    parameters jsonb not null,
    overlap app.schedule_overlap not null,
    catch_up app.schedule_catch_up not null,
    by_scope text,
    trouble text,
    retired boolean not null default false,
    version integer not null default 1,
    after timestamptz not null,
    next_at timestamptz,
    made_at timestamptz not null,
    made_by text not null,
    changed_at timestamptz not null,
    paused_at timestamptz,
    paused_by text,
    unique (platform, name)
);

create index schedules_workflow_hash on app.schedules (workflow_hash);
create index schedules_due on app.schedules (next_at) where paused_at is null and not retired;
create index schedules_after on app.schedules (after);

create table app.schedule_ticks (
    schedule bigint not null references app.schedules on delete cascade,
    at timestamptz not null,
    interval_start timestamptz,
    kind app.tick_kind not null,
    state app.tick_state not null,
    reason text,
    job_id text collate "C",
    open boolean not null default false,
    recorded_at timestamptz not null,
    primary key (schedule, at)
);

create index schedule_ticks_open on app.schedule_ticks (schedule, kind) where open;
create index schedule_ticks_waiting on app.schedule_ticks (schedule, kind, at) where state = 'waiting';
create index schedule_ticks_recorded on app.schedule_ticks (recorded_at) where not open and state <> 'waiting';
