-- What is published: collections, their items, and the objects behind them. The catalog that readers ask is made from
-- these rows (C3).
create table app.collections (
    id text collate "C" primary key,
    document jsonb not null,
    made_at timestamptz not null,
    changed_at timestamptz not null
);

create table app.catalog_items (
    collection text collate "C" not null references app.collections,
    id text collate "C" not null,
    document jsonb not null,
    job_id text collate "C" not null,
    published_at timestamptz not null,
    primary key (collection, id)
);

create index catalog_items_job_id on app.catalog_items (job_id);

create table app.outputs (
    job_id text collate "C" not null,
    name text collate "C" not null,
    kind text not null,
    tier text not null,
    key text collate "C" not null,
    media_type text not null,
    size bigint not null check (size >= 0),
    sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
    collection text collate "C" not null,
    item text collate "C" not null,
    primary key (job_id, name),
    foreign key (collection, item) references app.catalog_items on delete cascade
);

create index outputs_item on app.outputs (collection, item);
create index outputs_object on app.outputs (tier, key);
