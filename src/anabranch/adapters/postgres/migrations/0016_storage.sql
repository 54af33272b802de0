-- Every process sees by the marks that it uses the same storage. The items of a large fan-out come in batches.
create table app.storage_marks (
    area text primary key,
    mark text not null,
    url text not null,
    marked_at timestamptz not null
);

create table app.staged_items (
    job bigint not null references app.jobs (id) on delete cascade,
    node text not null,
    generation integer not null,
    idx integer not null,
    item jsonb not null,
    primary key (job, node, generation, idx)
);
