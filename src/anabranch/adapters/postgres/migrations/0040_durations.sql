-- Durations are counted from here on; nothing of the past is read.
create type app.duration_kind as enum ('job', 'node', 'task', 'wait');

create table app.durations (
    kind app.duration_kind not null,
    name text not null,
    detail text not null,
    bucket integer not null,
    entries integer not null,
    seconds double precision not null,
    id bigint generated always as identity
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

create table app.histograms (
    kind app.duration_kind not null,
    name text not null,
    detail text not null,
    bucket integer not null,
    entries bigint not null,
    seconds double precision not null,
    counted_at timestamptz not null,
    primary key (kind, name, detail, bucket)
);
