-- Lanes know when their next retry is due, so that one index orders all that can be claimed. Tables of tasks lose their
-- foreign keys: a key check for each task costs more than the task's own row, and walks every dead version of its lane
-- while a long transaction holds the horizon. Their rows are written under the lane's lock.
alter table app.items drop constraint items_lane_fkey, drop constraint items_lane_key_key, alter column key drop not null;
update app.items set key = null where key = idx::text;
create unique index items_key on app.items (lane, key) where key is not null;
alter table app.claims drop constraint claims_lane_fkey;
alter table app.attempts drop constraint attempts_lane_fkey;
alter table app.traces drop constraint traces_lane_fkey;
alter table app.outcomes drop constraint outcomes_lane_fkey, add column forced boolean not null default false;

alter table app.due drop constraint due_lane_fkey, drop constraint due_pkey, drop column queue,
    add column expires_at timestamptz, add primary key (idx, lane);
create index due_lane on app.due (lane, due_at);
create index due_expires on app.due (expires_at) where expires_at is not null;

drop index app.lanes_queue_timeout;
alter table app.lanes drop column claimable, add column itemized boolean not null default true,
    add column due_at timestamptz, add column ripe boolean not null default false, add column values jsonb;
alter table app.lanes alter column itemized drop default, alter column ripe drop default,
    add column claimable boolean not null generated always as (
        not closed and (next_index < width or ripe) and (max_running is null or running < max_running)
    ) stored;
update app.lanes l set due_at = d.due_at
  from (select lane, min(due_at) as due_at from app.due group by lane) d where d.lane = l.id;
update app.due d set expires_at = d.first_at + make_interval(secs => (l.policy ->> 'total_timeout_seconds')::float)
  from app.lanes l where l.id = d.lane and l.policy ? 'total_timeout_seconds';
create index lanes_claimable on app.lanes (queue, priority, served_at, id) where claimable;
create index lanes_queue_timeout on app.lanes (id) where claimable and queue_timeout is not null;
create index lanes_due on app.lanes (queue, due_at) where not ripe and not closed and due_at is not null;

-- An attempt that a batch of reports ends, between the statements that do so.
create type app.ending as (
    place integer, row tid, lane bigint, idx integer, attempt integer, session bigint, ended text, body jsonb,
    due_at timestamptz, started_at timestamptz, log text, metrics jsonb,
    failures smallint, crashes smallint, first_at timestamptz, claimed_at timestamptz
);
