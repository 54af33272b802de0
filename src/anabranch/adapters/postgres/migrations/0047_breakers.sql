create table app.breakers (
    kind text not null check (kind in ('queue', 'handler')),
    name text not null,
    failures integer not null check (failures > 0),
    window_for interval not null,
    open_for interval not null,
    failed_at timestamptz[] not null default '{}',
    is_open boolean not null default false,
    opened_at timestamptz,
    closed_at timestamptz,
    open_until timestamptz,
    probe_at timestamptz,
    error jsonb,
    primary key (kind, name)
);
