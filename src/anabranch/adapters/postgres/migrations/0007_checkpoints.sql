-- What an attempt of a task saved for the next one: the newest only. Like other tables of tasks it has no foreign key.
create table app.checkpoints (
    lane bigint not null,
    idx integer not null,
    attempt integer not null,
    number integer not null,
    phase text not null,
    state jsonb not null,
    saved_at timestamptz not null,
    primary key (lane, idx)
);
