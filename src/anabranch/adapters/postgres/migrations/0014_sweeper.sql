-- A lane knows when it was last let go by its window or a limit; a duty knows which of its acts fail; a wait knows whether
-- it is for a date; and steps of the server's clock are noted.
alter table app.lanes add column freed_at timestamptz;
alter table app.duties add column trouble jsonb;
alter table app.waits add column is_date boolean not null default false;

create table app.clock (
    single boolean primary key default true check (single),
    shifted interval not null,
    step interval not null,
    stepped_at timestamptz not null
);
