-- Schedules that watch a folder in place of a clock, and what they have seen there.
alter table app.schedules alter column cron drop not null;
alter table app.schedules add column watch jsonb;
alter table app.schedules add constraint schedules_cron_or_watch check ((cron is null) <> (watch is null));

create index schedules_watching on app.schedules (id) where watch is not null;

alter table app.schedule_ticks add column object text;

create table app.watches (
    schedule bigint primary key references app.schedules on delete cascade,
    watched jsonb not null,
    since timestamptz not null,
    complete boolean not null default false,
    look integer not null default 0,
    session bigint,
    turned_at timestamptz not null,
    next_at timestamptz not null,
    looked_at timestamptz,
    trouble text,
    troubled_at timestamptz
);

create index watches_next on app.watches (next_at);
create index watches_trouble on app.watches (troubled_at) where trouble is not null;

create table app.watched_objects (
    schedule bigint not null references app.schedules on delete cascade,
    address text collate "C" not null,
    version text not null,
    size bigint not null,
    modified timestamptz not null,
    since timestamptz not null,
    done text,
    gone_at timestamptz,
    primary key (schedule, address)
);

create index watched_objects_gone on app.watched_objects (gone_at) where gone_at is not null;
