-- Vector layers: tables in schema geo that jobs load, and that publications show.

create table app.layer_tables (
    name text collate "C" primary key,
    job_id text collate "C" not null,
    geometry_type text not null,
    has_z boolean not null,
    columns jsonb not null,
    rows bigint,
    made_at timestamptz not null
);

create index layer_tables_job_id on app.layer_tables (job_id);

create table app.loaded_chunks (
    table_name text collate "C" not null references app.layer_tables on delete cascade,
    chunk integer not null,
    rows bigint not null,
    primary key (table_name, chunk)
);

create table app.published_tables (
    publication uuid not null references app.publications,
    position integer not null,
    name text collate "C" not null,
    table_name text collate "C" not null references app.layer_tables,
    primary key (publication, position)
);

create index published_tables_name on app.published_tables (name);
create index published_tables_table_name on app.published_tables (table_name);

create table app.layer_names (
    name text collate "C" primary key,
    kind text not null,
    key text collate "C" not null
);

create index layer_names_key on app.layer_names (kind, key);
