-- Retries in generations, gates and waits, child jobs, limits and drains. A lane can be held back by a limit, and knows
-- the highest attempt of the generations before it, so that attempts never fall (E3).
alter type app.lane_purpose add value 'gate';
alter type app.lane_purpose add value 'wait';

drop index app.lanes_claimable, app.lanes_queue_timeout;
alter table app.lanes drop column claimable;
alter table app.lanes add column tried integer not null default 0, add column limit_key text, add column held text,
    add column superseded boolean not null default false;
alter table app.lanes add column claimable boolean not null generated always as (
        not closed and held is null and (next_index < width or ripe) and (max_running is null or running < max_running)
    ) stored;
create index lanes_claimable on app.lanes (queue, priority, served_at, id) where claimable;
create index lanes_queue_timeout on app.lanes (id) where claimable and queue_timeout is not null;
create index lanes_open on app.lanes (queue) where not closed;
create index lanes_failed on app.lanes (id) where failed > 0 and not superseded;
create index lanes_held on app.lanes (held, priority, served_at, id) where held is not null and not closed;

create index outcomes_failed on app.outcomes (lane, idx) where outcome = 'failed';
alter table app.workflows add column parts text[] not null default '{}';
alter table app.jobs add column parent bigint;
create index jobs_parent on app.jobs (parent) where parent is not null;
alter table app.nodes add column kept boolean not null default false;
alter table app.sessions add column draining boolean not null default false;

-- A gate or wait that is open; until: when its time is up.
create table app.waits (
    job bigint not null references app.jobs on delete cascade,
    node text not null,
    generation integer not null,
    until timestamptz,
    primary key (job, node)
);

create index waits_until on app.waits (until) where until is not null;

-- What a gate was told; the first signal stands, also one that came before the gate was reached.
create table app.signals (
    job bigint not null references app.jobs on delete cascade,
    node text not null,
    generation integer not null,
    payload jsonb not null,
    sender text not null,
    at timestamptz not null,
    primary key (job, node, generation)
);

-- A task whose work is a job: the row takes the place of its claim while that job runs.
create table app.children (
    job bigint primary key references app.jobs on delete cascade,
    lane bigint not null,
    idx integer not null,
    attempt integer not null,
    failures smallint not null,
    crashes smallint not null,
    first_at timestamptz not null,
    claimed_at timestamptz not null,
    ended_at timestamptz,
    taken_until timestamptz
);

create unique index children_task on app.children (lane, idx);
create index children_ended on app.children (ended_at) where ended_at is not null;

-- How many tasks of a queue, workflow, handler or key may run at once; paused: none.
create table app.limits (
    kind text not null check (kind in ('queue', 'workflow', 'handler', 'key')),
    name text not null,
    most integer check (most > 0),
    paused boolean not null default false,
    reason text not null default '',
    set_by text not null,
    set_at timestamptz not null,
    primary key (kind, name)
);
