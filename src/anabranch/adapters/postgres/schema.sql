-- The tables of schema app, as they stand after the newest migration.
-- Tables never depend on functions, so that functions can be redeployed whole. Tables that fill and empty all the time
-- are vacuumed after a thousand dead rows, whatever their size, and without pauses.

create type app.job_state as enum ('pending', 'running', 'waiting', 'completed', 'failed', 'cancelled');
create type app.node_state as enum ('pending', 'running', 'completed', 'failed', 'skipped', 'cancelled');
create type app.lane_purpose as enum ('start', 'plan', 'work', 'aggregate', 'gate', 'wait');
create type app.outcome as enum ('completed', 'failed', 'cancelled');
create type app.attempt_end as enum ('failed', 'crashed', 'timed_out', 'handed_back', 'lost');
create type app.session_kind as enum ('worker', 'orchestrator', 'api');
create type app.key_scope as enum ('read', 'submit', 'operate', 'admin');
create type app.publication_action as enum ('publish', 'replace', 'rollback', 'restore', 'withdraw');
create type app.processing_status as enum ('queued', 'processing', 'completed', 'failed');
create type app.approval_status as enum ('pending_review', 'approved', 'rejected', 'revoked', 'expired');
create type app.clearance as enum ('uncleared', 'internal', 'public');
create type app.approval_policy as enum ('none', 'one_approver', 'other_approver');
create type app.webhook_format as enum ('standard', 'cloudevents');
create type app.delivery_state as enum ('pending', 'delivered', 'dead');
create type app.schedule_origin as enum ('workflow', 'api');
create type app.schedule_overlap as enum ('skip', 'queue', 'cancel_previous');
create type app.schedule_catch_up as enum ('none', 'latest', 'all');
create type app.tick_kind as enum ('regular', 'manual', 'backfill');
create type app.tick_state as enum ('waiting', 'submitted', 'skipped', 'missed', 'failed');
create type app.duration_kind as enum ('job', 'node', 'task', 'wait');

-- An attempt that a batch of reports ends, between the statements that do so.
create type app.ending as (
    place integer, row tid, lane bigint, idx integer, attempt integer, session bigint, ended text, body jsonb,
    due_at timestamptz, started_at timestamptz, log text, metrics jsonb,
    failures smallint, crashes smallint, first_at timestamptz, claimed_at timestamptz
);

-- A definition by the hash of its content; a job is pinned to one (E16), and with it to its parts, which child jobs run.
create table app.workflows (
    hash text primary key,
    workflow text not null,
    definition jsonb not null,
    created_at timestamptz not null,
    parts text[] not null default '{}'
);

-- watched: somebody is notified when its state changes. platform: whose it is; of a child its root's. tick: the times of the
-- schedule that made it or its root. ending: how it ends once its cleanup nodes have ended, as app.set_job takes it; null while
-- more than its cleanup is left to do, and once it has ended.
create table app.jobs (
    id bigint generated always as identity primary key,
    job_id text collate "C" not null unique,
    identity text not null,
    ordinal integer not null,
    scope text not null,
    workflow text not null,
    workflow_hash text not null references app.workflows,
    parameters jsonb not null,
    priority smallint not null check (priority between 1 and 9),
    state app.job_state not null,
    generation integer not null,
    result jsonb,
    error jsonb,
    correlation_id text not null,
    last_event integer not null,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    parent bigint,
    watched boolean not null default false,
    platform text not null,
    tick jsonb,
    ending jsonb,
    unique (identity, ordinal)
);

create index jobs_parent on app.jobs (parent) where parent is not null;
create index jobs_workflow_hash on app.jobs (workflow_hash);
-- Lists begin with the newest. No other index has this order, so the planner can't take one that would walk all jobs.
create index jobs_state on app.jobs (state, (-id));
create index jobs_platform on app.jobs (platform, state, (-id));
create index jobs_platform_workflow on app.jobs (platform, workflow, state, (-id));

-- What a job was labelled with when it was made, for people and programs to find it by. No part of its identity.
create table app.labels (
    job bigint not null references app.jobs on delete cascade,
    name text collate "C" not null,
    value text collate "C" not null,
    primary key (job, name)
);

create index labels_value on app.labels (name, value, (-job));

-- The trace that what a job does goes on with (traceparent of W3C Trace Context); a job that is not traced has no row.
create table app.job_traces (
    job bigint primary key references app.jobs on delete cascade,
    traceparent text not null
);

-- What a caller asked for under a key of theirs, by the hash of it, and the answer: the job, and how it stood then (E15).
-- It refers to no row: the answer stays the same though the job may be gone.
create table app.idempotency_keys (
    scope text not null,
    key text not null,
    request text not null,
    job_id text not null,
    state app.job_state not null,
    created boolean not null,
    expires_at timestamptz not null,
    primary key (scope, key)
);

create index idempotency_keys_expires on app.idempotency_keys (expires_at);

-- Kept: it is tried again and goes on with the results it has.
create table app.nodes (
    job bigint not null references app.jobs on delete cascade,
    name text not null,
    position integer not null,
    state app.node_state not null,
    generation integer not null,
    output jsonb,
    error jsonb,
    opened_at timestamptz,
    finished_at timestamptz,
    kept boolean not null default false,
    primary key (job, name)
);

-- An open node. Claims raise next_index and running; reports lower running and remaining. The tables of its tasks have
-- no foreign key to it: the check of each row would cost more than the row. Only functions write
-- them, with the lane locked before its counters move.
-- values: the outputs that the parameters of its tasks name.
-- due_at: when the first of its tasks between two attempts may be claimed; ripe: that time has come. handed: some task
-- handed parameters over to the next stage. tried: the highest attempt of its earlier generations. held: the limit that
-- leaves no room for it now. superseded: its node was retried, and what stands here is history. reported: how many attempts
-- that did not end their task the job's events report; null: there was none. task_bytes: how much data of its own a task
-- brings to its claim at most; shared_bytes: how much they have in common. freed_at: when its window or a limit last let it
-- be claimed again. owner: the hash of the scope of its root job, the one that its job runs for or the job itself. place:
-- the round in which it is claimed from, of its owner's rounds in its queue and priority.
create table app.lanes (
    id bigint generated always as identity primary key,
    job bigint not null references app.jobs on delete cascade,
    node text not null,
    purpose app.lane_purpose not null,
    generation integer not null,
    queue text not null,
    priority smallint not null,
    handler text not null,
    with_parameters boolean not null,
    policy jsonb not null,
    width integer not null,
    next_index integer not null,
    running integer not null,
    remaining integer not null,
    failed integer not null,
    tolerated integer not null,
    max_running integer,
    queue_timeout interval,
    closed boolean not null,
    opened_at timestamptz not null,
    served_at timestamptz not null,
    itemized boolean not null,
    due_at timestamptz,
    ripe boolean not null,
    values jsonb,
    handed boolean not null default false,
    tried integer not null default 0,
    limit_key text,
    held text,
    superseded boolean not null default false,
    claimable boolean not null generated always as (
        not closed and held is null and (next_index < width or ripe) and (max_running is null or running < max_running)
    ) stored,
    reported integer,
    task_bytes integer not null default 0,
    shared_bytes integer not null default 0,
    freed_at timestamptz,
    owner bigint not null default 0,
    root bigint not null default 0,
    place bigint not null default 0,
    handler_version integer,
    unique (job, node, purpose, generation)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index lanes_claimable on app.lanes (queue, priority, owner, place, root, id) where claimable;
create index lanes_queue_timeout on app.lanes (id) where claimable and queue_timeout is not null;
create index lanes_open on app.lanes (queue, priority, owner) where not closed;
create index lanes_failed on app.lanes (id) where failed > 0 and not superseded;
create index lanes_held on app.lanes (held, queue, priority, owner, place, root, id) where held is not null and not closed;
create index lanes_root on app.lanes (root, queue, priority, place) where claimable or held is not null and not closed;
create index lanes_due on app.lanes (queue, due_at) where not ripe and not closed and due_at is not null;
create index lanes_due_timeout on app.lanes (due_at) where not ripe and not closed and queue_timeout is not null;
create index lanes_versioned on app.lanes (handler, handler_version) where claimable and handler_version is not null;
create index lanes_unreported on app.lanes (id) where reported = 0 and not closed;

-- When an owner was last served in a queue at a priority: the number of that claim, and the round that it was in. Claims that
-- have nobody to choose from write nothing here.
create table app.turns (
    queue text not null,
    priority smallint not null,
    owner bigint not null,
    number bigint not null,
    place bigint not null,
    primary key (queue, priority, owner)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create sequence app.turn_numbers;

-- The parameters of a lane's tasks, where they differ; a lane of bare indexes has none. A task without a key of its own
-- goes by its index.
create table app.items (
    lane bigint not null,
    idx integer not null,
    key text,
    handler text,
    parameters jsonb not null,
    metadata jsonb,
    primary key (lane, idx)
) with (autovacuum_vacuum_scale_factor = 0.02);

create unique index items_key on app.items (lane, key) where key is not null;

-- A task that runs now. The row is the fence: a report that doesn't find it changes nothing (E3). Token: random, drawn by
-- the claim: the other numbers are given out again by a database that is restored to an earlier point.
create table app.claims (
    lane bigint not null,
    idx integer not null,
    attempt integer not null,
    session bigint not null,
    failures smallint not null,
    crashes smallint not null,
    first_at timestamptz not null,
    claimed_at timestamptz not null,
    started_at timestamptz,
    progress jsonb,
    progress_at timestamptz,
    token bigint not null default 0,
    primary key (lane, idx)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index claims_session on app.claims (session);

-- A task between two attempts.
create table app.due (
    lane bigint not null,
    idx integer not null,
    attempt integer not null,
    failures smallint not null,
    crashes smallint not null,
    first_at timestamptz not null,
    due_at timestamptz not null,
    expires_at timestamptz,
    primary key (idx, lane)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index due_lane on app.due (lane, due_at);
create index due_expires on app.due (expires_at) where expires_at is not null;

-- How a task ended. The key admits one result per task, and nothing updates it (E4). Forced: the sweeper ended it.
-- Handed: parameters for the task with the same index of the next stage.
create table app.outcomes (
    lane bigint not null,
    idx integer not null,
    outcome app.outcome not null,
    attempt integer not null,
    session bigint not null,
    failures smallint not null,
    crashes smallint not null,
    claimed_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz not null,
    result jsonb,
    reference jsonb,
    error jsonb,
    forced boolean not null default false,
    handed jsonb,
    primary key (lane, idx)
) with (autovacuum_vacuum_scale_factor = 0.02);

create index outcomes_failed on app.outcomes (lane, idx) where outcome = 'failed';

-- An attempt that did not end its task; the one that did is the outcome's own.
create table app.attempts (
    lane bigint not null,
    idx integer not null,
    attempt integer not null,
    session bigint not null,
    ended app.attempt_end not null,
    claimed_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz not null,
    error jsonb,
    stale_at timestamptz,
    primary key (lane, idx, attempt)
) with (autovacuum_vacuum_scale_factor = 0.02);

-- What an attempt printed and measured, where it did.
create table app.traces (
    lane bigint not null,
    idx integer not null,
    attempt integer not null,
    log text,
    metrics jsonb,
    primary key (lane, idx, attempt)
) with (autovacuum_vacuum_scale_factor = 0.02);

-- What an attempt of a task saved for the next one: the newest only. Number: how many it saved, with this one.
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

-- The right to advance a job, one per lane and generation (E6). Whoever holds it plans and applies what follows. Its id is
-- random, for the same reason as a claim's token. Without a session, it is free to take, but not before taken_until.
-- Trouble: why it could not be spent, since troubled_at.
create table app.rights (
    id bigint primary key default (random() * 9007199254740991)::bigint,
    job bigint not null references app.jobs on delete cascade,
    node text not null,
    purpose app.lane_purpose not null,
    generation integer not null,
    lane bigint,
    session bigint,
    takes integer not null,
    taken_until timestamptz,
    made_at timestamptz not null,
    trouble text,
    troubled_at timestamptz,
    unique (job, node, purpose, generation)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index rights_free on app.rights (coalesce(taken_until, made_at));

-- A gate or wait that is open; until: when its time is up. is_date: that is a date that was declared, and not a time from
-- when it was opened.
create table app.waits (
    job bigint not null references app.jobs on delete cascade,
    node text not null,
    generation integer not null,
    until timestamptz,
    is_date boolean not null default false,
    primary key (job, node)
);

create index waits_until on app.waits (until) where until is not null;

-- What a gate received; the first signal counts, also one that came before the gate was reached.
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
    taken_until timestamptz,
    token bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

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

-- How many more tasks of a limit run, or fewer: each begin and end is a row, so that no two wait for each other; a claim that
-- holds the limit's row puts a sum in the place of many. Xid: the transaction that wrote it. Upto, open: the sum has seen
-- all transactions below the first, without the second.
create table app.limit_changes (
    kind text not null,
    name text not null,
    xid xid8 not null default pg_current_xact_id(),
    change integer not null,
    upto xid8,
    open xid8[]
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index limit_changes_of on app.limit_changes (kind, name, xid);

-- What stops the tasks of a queue or handler for a while that fail again and again for what is outside. failed_at: the newest
-- failures that count, while it is closed. opened_at, closed_at: when it was open last. open_until: then one task probes it;
-- probe_at: when that was claimed. error: of the last failure.
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

-- How long jobs, nodes and attempts of tasks took and how long tasks waited, for metrics: each transaction adds rows, so that
-- no two wait for each other; the sweeper adds them to the histograms. Name: the workflow, handler or queue; detail: how it
-- ended, or which node it is. Bucket: as app.find_bucket counts them.
create table app.durations (
    kind app.duration_kind not null,
    name text not null,
    detail text not null,
    bucket integer not null,
    entries integer not null,
    seconds double precision not null,
    id bigint generated always as identity
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The sums of these. A bucket that was never met has no row.
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

create table app.events (
    job bigint not null references app.jobs on delete cascade,
    seq integer not null,
    at timestamptz not null,
    kind text not null,
    node text,
    data jsonb not null,
    primary key (job, seq)
);

create index events_retried on app.events (job, seq) where kind = 'job.retried';

-- One process from start to end. A dead session never comes back to life (E3). Its id is random, for the same reason as a
-- claim's token. Trouble: what keeps it from its work, since troubled_at. Handlers: those that a worker has; null: it
-- does not say.
create table app.sessions (
    id bigint primary key default (random() * 9007199254740991)::bigint,
    kind app.session_kind not null,
    host text not null,
    pid integer not null,
    member text not null,
    queues text[] not null,
    slots integer not null,
    lease interval not null,
    began_at timestamptz not null,
    beat_at timestamptz not null,
    dead_at timestamptz,
    end_reason text,
    draining boolean not null default false,
    trouble text,
    troubled_at timestamptz,
    handlers text[],
    schema_release integer,
    connections integer
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index sessions_live on app.sessions (id) where dead_at is null;

-- The heartbeat of each background duty (O2). Trouble: which of its acts fail, and why.
create table app.duties (
    name text primary key,
    session bigint not null,
    every interval not null,
    unbroken_since timestamptz not null,
    ticked_at timestamptz not null,
    trouble jsonb
);

-- How far steps of the server's clock have moved it since the schema was made, and the last of them; no row: there was none.
create table app.clock (
    single boolean primary key default true check (single),
    shifted interval not null,
    step interval not null,
    stepped_at timestamptz not null
);

-- API keys: who may call, as whom, and until when. Of a secret only its hash is kept (S5). The scope of a job is
-- the platform of the key that submitted it (E15).
create table app.keys (
    id bigint generated always as identity primary key,
    key_id text not null unique,
    digest bytea not null check (length(digest) = 32),
    name text not null,
    platform text not null,
    scope app.key_scope not null,
    made_at timestamptz not null,
    made_by text not null,
    expires_at timestamptz,
    used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text
);

-- A job that is gone (O5): enough to say so, and to give the next job of the same parameters another id. Ids may come back
-- when their tombstone is gone, too, so job_id is no key.
create table app.tombstones (
    job bigint primary key,
    job_id text collate "C" not null,
    identity text not null,
    ordinal integer not null,
    platform text not null,
    workflow text not null,
    state app.job_state not null,
    created_at timestamptz not null,
    finished_at timestamptz not null,
    purged_at timestamptz not null
);

create index tombstones_job_id on app.tombstones (job_id);
create index tombstones_identity on app.tombstones (identity, ordinal);
create index tombstones_purged_at on app.tombstones (purged_at);

-- A lane of such a job, whose tasks still have rows from the index `cleared` on. Nothing shows them, for the lane is gone.
create table app.remains (
    lane bigint primary key,
    job bigint not null references app.tombstones,
    cleared integer not null
);

create index remains_job on app.remains (job);

-- What is published. A collection's document is shown as it stands here; its extent is the union of its items (C2).
create table app.collections (
    id text collate "C" primary key,
    document jsonb not null,
    made_at timestamptz not null,
    changed_at timestamptz not null
);

-- An item that is published now, as it was built, with addresses of tiers: made from the current publications, as the
-- catalog that readers ask is made from these rows (C3). (`items` are the engine's.)
create table app.catalog_items (
    collection text collate "C" not null references app.collections,
    id text collate "C" not null,
    document jsonb not null,
    job_id text collate "C" not null,
    published_at timestamptz not null,
    primary key (collection, id)
);

create index catalog_items_job_id on app.catalog_items (job_id);

-- The mark that each area of storage holds: a process whose area holds another one uses another store, and does not start.
create table app.storage_marks (
    area text primary key,
    mark text not null,
    url text not null,
    marked_at timestamptz not null
);

-- Items of a large fan-out that come in batches, until its lane is opened with all of them (E11).
create table app.staged_items (
    job bigint not null references app.jobs (id) on delete cascade,
    node text not null,
    generation integer not null,
    idx integer not null,
    item jsonb not null,
    primary key (job, node, generation, idx)
);

-- The version of each handler of a worker. A table of its own: processes of earlier releases read whole rows of sessions.
create table app.session_versions (
    session bigint primary key references app.sessions on delete cascade,
    versions jsonb not null
);

-- The public halves of the keys that signed manifests; a retired key signs nothing new.
create table app.signing_keys (
    id text collate "C" primary key,
    public_key text not null,
    first_used_at timestamptz not null,
    retired_at timestamptz
);

-- The handlers that made an item, by version: what a changed handler should make again.
create table app.item_handlers (
    collection text collate "C" not null,
    item text collate "C" not null,
    handler text collate "C" not null,
    version text collate "C" not null,
    primary key (collection, item, handler, version),
    foreign key (collection, item) references app.catalog_items on delete cascade
);

create index item_handlers_made on app.item_handlers (handler, collection, item, version);
create index item_handlers_version on app.item_handlers (handler, version);

-- What readers see: a history for each key, which is only appended to. A key of kind `item` is collection/item. Its newest
-- publication is the current one; `withdraw` shows nothing. source: the publication whose content it shows or takes away,
-- itself where it brought some; only that one has a body, a manifest and files. Ids are random: a database that was
-- restored to an earlier point never gives one to other content. manifest is text, because its bytes are what was signed.
-- made_from: {address, versions: {address: version, …}, sha256: {address: hash, …}} of the file that the content was made from
-- and its sidecars; newer versions of files with the same hashes take the place of those that were read.
create table app.publications (
    id uuid primary key,
    kind text not null,
    key text collate "C" not null,
    number integer not null check (number > 0),
    action app.publication_action not null,
    source uuid not null references app.publications,
    job_id text collate "C",
    body jsonb,
    manifest text,
    signing_key text collate "C" references app.signing_keys,
    handlers jsonb,
    actor text not null,
    reason text,
    at timestamptz not null,
    made_from jsonb,
    unique (kind, key, number)
);

create index publications_job_id on app.publications (job_id);

-- Each key that was ever published: the platform that owns it (null: nobody knows), its current publication and the last
-- number. Every action locks its row (P5). public: readable without an API key, where the operator allows that (S1).
create table app.publication_keys (
    kind text not null,
    key text collate "C" not null,
    owner text,
    current uuid references app.publications,
    number integer not null,
    public boolean not null default false,
    primary key (kind, key)
);

create index publication_keys_owner on app.publication_keys (owner, key) where kind = 'collection';
create index publication_keys_public on app.publication_keys (key) where public;

-- The platforms that may publish into a collection besides its owner; they see all of it.
create table app.collection_writers (
    collection text collate "C" not null,
    platform text not null,
    added_by text not null,
    added_at timestamptz not null,
    primary key (collection, platform)
);

create index collection_writers_platform on app.collection_writers (platform, collection);

-- The objects of a publication: what readers may fetch, and where it is. version: of an object that was not made by a job, so
-- that others may replace it: only this version of it is shown. Its hash may be unknown.
create table app.published_files (
    publication uuid not null references app.publications,
    name text collate "C" not null,
    kind text not null,
    tier text not null,
    key text collate "C" not null,
    media_type text not null,
    size bigint not null check (size >= 0),
    sha256 text check (sha256 ~ '^[0-9a-f]{64}$'),
    version text,
    primary key (publication, name),
    constraint published_files_known check (sha256 is not null or version is not null)
);

create index published_files_object on app.published_files (tier, key);

-- The publications that brought content which is out of sight now, until retention removes it; withdrawn: it was taken
-- away, and not replaced.
create table app.former_publications (
    publication uuid primary key references app.publications,
    hidden_at timestamptz not null,
    withdrawn boolean not null
);

create index former_publications_hidden_at on app.former_publications (hidden_at);

-- The jobs whose publication of a key is out of sight, and the jobs that they are a part of: they do not answer for their
-- parameters any more (E15).
create table app.superseded_jobs (
    job_id text collate "C" not null,
    kind text not null,
    key text collate "C" not null,
    primary key (job_id, kind, key)
);

-- The publications that jobs found in sight with the content that they would have published, and left as they are: such a
-- job answers for its parameters only while they are in sight, like the job that published them (E15).
create table app.kept_publications (
    publication uuid references app.publications,
    job_id text collate "C" not null,
    primary key (publication, job_id)
);

create index kept_publications_job_id on app.kept_publications (job_id);

-- Objects that no publication uses any more, until retention has removed them.
create table app.expired_objects (
    tier text not null,
    key text collate "C" not null,
    primary key (tier, key)
);

-- Tables of vector layers, by their names in schema geo: those that jobs load. columns: [{name, type, source}, …], after gid
-- and geom. rows: how many it has, null until it is finished: its rows are checked, and nobody writes to it any more.
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

-- The files of rows that were copied into a table, in the transaction that copied them: a repeated attempt copies none twice.
create table app.loaded_chunks (
    table_name text collate "C" not null references app.layer_tables on delete cascade,
    chunk integer not null,
    rows bigint not null,
    primary key (table_name, chunk)
);

-- The tables that a publication shows, together, as the view `name` in schema geo.
create table app.published_tables (
    publication uuid not null references app.publications,
    position integer not null,
    name text collate "C" not null,
    table_name text collate "C" not null references app.layer_tables,
    primary key (publication, position)
);

create index published_tables_name on app.published_tables (name);
create index published_tables_table_name on app.published_tables (table_name);

-- The names of views in schema geo, and the key of publications that each belongs to: the first that took it.
create table app.layer_names (
    name text collate "C" primary key,
    kind text not null,
    key text collate "C" not null
);

create index layer_names_key on app.layer_names (kind, key);

-- Partner systems. An asset is known by its required references, a release by version_ref too (P1); workflows: {data type:
-- workflow, …}; sources: the folders that its jobs may read. One that is retired takes no more orders, and keeps its assets
-- (P8). The tables of platforms have row level security: see app.set_platform_filter.
create table app.platforms (
    id text collate "C" primary key check (id ~ '^[a-z][a-z0-9_-]{0,39}$'),
    title text not null,
    required_refs text[] not null,
    optional_refs text[] not null,
    version_ref text,
    workflows jsonb not null,
    approval app.approval_policy not null,
    callback_hosts text[] not null,
    max_unresolved integer check (max_unresolved > 0),
    made_at timestamptz not null,
    changed_at timestamptz not null,
    retired_at timestamptz,
    sources text[] not null
);

-- What a platform's references name. The ids are hashes of platform and references, and never change (P2).
create table app.assets (
    asset_id text collate "C" primary key check (asset_id ~ '^[0-9a-f]{32}$'),
    platform text collate "C" not null references app.platforms,
    refs jsonb not null,
    title text,
    description text,
    tags text[] not null,
    made_by text not null,
    made_at timestamptz not null,
    deleted_at timestamptz,
    number bigint generated always as identity unique
);

create index assets_platform on app.assets (platform, number);

-- The references of assets, one by one, to find them by.
create table app.asset_refs (
    platform text collate "C" not null references app.platforms,
    name text collate "C" not null,
    value text collate "C" not null,
    asset_id text collate "C" not null references app.assets,
    primary key (platform, name, value, asset_id)
);

-- A version of an asset, published as one item; clearance: who may read it once it is published.
create table app.releases (
    release_id text collate "C" primary key check (release_id ~ '^[0-9a-f]{32}$'),
    asset_id text collate "C" not null references app.assets,
    platform text collate "C" not null references app.platforms,
    ordinal integer not null check (ordinal > 0),
    version text,
    data_type text not null,
    collection text not null,
    item_id text not null,
    clearance app.clearance not null default 'uncleared',
    made_by text not null,
    made_at timestamptz not null,
    number bigint generated always as identity unique,
    unique (asset_id, ordinal),
    unique (collection, item_id)
);

create index releases_platform on app.releases (platform, number);
create index releases_asset on app.releases (asset_id, number);

-- One processing of a release, by one job. app.guard_revision says who may change which column. statuses: both as text, to be
-- found by, because row level security lets no index on an enum be used.
create table app.revisions (
    release_id text collate "C" not null references app.releases,
    revision integer not null check (revision > 0),
    platform text collate "C" not null references app.platforms,
    order_hash text not null,
    approval_required boolean not null,
    submitted_by text not null,
    made_at timestamptz not null,
    approval_status app.approval_status not null default 'pending_review',
    decided_by text,
    decided_at timestamptz,
    reason text,
    processing_status app.processing_status not null default 'queued',
    job_id text collate "C" unique,
    content_hash text,
    artifacts jsonb,
    error jsonb,
    finished_at timestamptz,
    statuses text collate "C" not null generated always as (
        case processing_status when 'queued' then 'queued' when 'processing' then 'processing'
                               when 'completed' then 'completed' else 'failed' end || ' ' ||
        case approval_status when 'pending_review' then 'pending_review' when 'approved' then 'approved'
                             when 'rejected' then 'rejected' when 'revoked' then 'revoked' else 'expired' end) stored,
    primary key (release_id, revision)
);

create index revisions_status on app.revisions (platform, statuses);

create index revisions_open on app.revisions (platform, release_id)
    where approval_status = 'pending_review' and processing_status <> 'failed';

-- The revision whose job made the content of an item's publication: jobs are purged, and this stays.
create table app.published_revisions (
    publication uuid primary key references app.publications,
    release_id text collate "C" not null,
    revision integer not null,
    platform text collate "C" not null references app.platforms,
    foreign key (release_id, revision) references app.revisions
);

create index published_revisions_release on app.published_revisions (release_id, revision);

-- Work orders as they were accepted.
create table app.requests (
    request_id uuid primary key default gen_random_uuid(),
    platform text collate "C" not null references app.platforms,
    asset_id text collate "C" not null references app.assets,
    release_id text collate "C" not null references app.releases,
    revision integer not null,
    body jsonb not null,
    made_by text not null,
    correlation_id text not null,
    made_at timestamptz not null,
    number bigint generated always as identity unique,
    foreign key (release_id, revision) references app.revisions
);

create index requests_platform on app.requests (platform, number);
create index requests_release on app.requests (release_id, number);

-- Who did what (P7); only appended to.
create table app.audit (
    number bigint generated always as identity primary key,
    at timestamptz not null,
    platform text collate "C" not null,
    actor text not null,
    action text not null,
    asset_id text collate "C",
    release_id text collate "C",
    revision integer,
    reason text,
    data jsonb not null,
    correlation_id text
);

create index audit_platform on app.audit (platform, number);
create index audit_asset on app.audit (asset_id, number);

-- Where a platform wants to be called. Secrets are sealed by a key that the database never sees (S5); former_secret signs
-- beside the newest until former_until. listed: false for a callback, whose id follows from what it is. authority: scheme,
-- host and port. number: in which order they are listed. failures: how many in a row; open_until: until then its breaker lets nothing through. retries: fewer than
-- the usual ones.
create table app.webhook_endpoints (
    id uuid primary key,
    number bigint generated always as identity,
    platform text collate "C" not null,
    listed boolean not null,
    url text not null,
    authority text not null,
    events text[] not null,
    format app.webhook_format not null,
    description text not null,
    active boolean not null,
    secret bytea not null,
    former_secret bytea,
    former_until timestamptz,
    timeout_seconds integer not null check (timeout_seconds between 1 and 60),
    retries integer not null check (retries between 0 and 10),
    failures integer not null default 0,
    open_until timestamptz,
    disabled_reason text,
    made_at timestamptz not null,
    made_by text not null,
    changed_at timestamptz not null
);

create index webhook_endpoints_platform on app.webhook_endpoints (platform, number) where listed;
create index webhook_endpoints_callbacks on app.webhook_endpoints (changed_at) where not listed;
create index webhook_endpoints_open on app.webhook_endpoints (open_until) where open_until is not null;

-- Who is called for one subject only: a job, by its id.
create table app.webhook_callbacks (
    subject text collate "C" not null,
    endpoint uuid not null references app.webhook_endpoints on delete cascade,
    platform text collate "C" not null,
    primary key (subject, endpoint)
);

create index webhook_callbacks_endpoint on app.webhook_callbacks (endpoint);

-- The outbox: written by the transaction that changed something (P9). Order is kept for a subject.
create table app.webhook_messages (
    id uuid primary key,
    platform text collate "C" not null,
    subject text collate "C" not null,
    event text collate "C" not null,
    data jsonb not null,
    correlation_id text not null,
    made_at timestamptz not null
);

-- A message for an endpoint. ready: no earlier delivery of its endpoint and subject is open; null: nobody has looked yet.
-- session: who is calling now. attempts: how many calls were made; tries: those since it was made or replayed. give_up_at: when it is a dead letter though it could not be tried.
create table app.webhook_deliveries (
    id bigint generated always as identity primary key,
    message uuid not null references app.webhook_messages,
    endpoint uuid not null references app.webhook_endpoints on delete cascade,
    subject text collate "C" not null,
    state app.delivery_state not null,
    ready boolean,
    attempts integer not null default 0,
    tries integer not null default 0,
    due_at timestamptz not null,
    give_up_at timestamptz not null,
    session bigint,
    status integer,
    error text,
    ended_at timestamptz,
    platform text collate "C" not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index webhook_deliveries_message on app.webhook_deliveries (message);
create index webhook_deliveries_endpoint on app.webhook_deliveries (endpoint, id);
create index webhook_deliveries_dead on app.webhook_deliveries (id) where state = 'dead';
create index webhook_deliveries_new on app.webhook_deliveries (id) where state = 'pending' and ready is null;
create index webhook_deliveries_open on app.webhook_deliveries (endpoint, subject, id) where state = 'pending';
create index webhook_deliveries_due on app.webhook_deliveries (endpoint, due_at, id)
    where state = 'pending' and ready and session is null;
create index webhook_deliveries_taken on app.webhook_deliveries (session) where session is not null;
create index webhook_deliveries_give_up on app.webhook_deliveries (give_up_at) where state = 'pending';
create index webhook_deliveries_ended on app.webhook_deliveries (ended_at) where ended_at is not null;

-- The log: every call that was made. response: the first bytes of the answer.
create table app.webhook_attempts (
    delivery bigint not null references app.webhook_deliveries on delete cascade,
    attempt integer not null,
    at timestamptz not null,
    seconds real not null,
    status integer,
    error text,
    response text,
    platform text collate "C" not null,
    primary key (delivery, attempt)
);

-- Uploads from before each platform had a folder for them, with the platforms whose jobs have named them.
create table app.former_uploads (
    platform text not null,
    key text collate "C" not null,
    primary key (platform, key)
);

-- What makes jobs by itself. A workflow's own schedule has its name. after: up to when ticks were dealt with; next_at: the first
-- tick after it; null: not planned yet; infinity: there is none. retired: its workflow says nothing of it any more. trouble:
-- why its ticks can't have jobs. by_scope: what the one who set it might do, which its jobs may. version: of what was set.
-- One that watches a folder has no cron expression: watch is {watch, pattern, stable_seconds, poll_seconds, existing}.
create table app.schedules (
    id bigint generated always as identity primary key,
    platform text collate "C" not null,
    name text collate "C" not null,
    origin app.schedule_origin not null,
    workflow text not null,
    workflow_hash text not null references app.workflows,
    cron text,
    timezone text not null,
    inputs jsonb not null,
    parameters jsonb not null,
    overlap app.schedule_overlap not null,
    catch_up app.schedule_catch_up not null,
    by_scope text,
    trouble text,
    retired boolean not null default false,
    version integer not null default 1,
    after timestamptz not null,
    next_at timestamptz,
    made_at timestamptz not null,
    made_by text not null,
    changed_at timestamptz not null,
    paused_at timestamptz,
    paused_by text,
    watch jsonb,
    unique (platform, name),
    constraint schedules_cron_or_watch check ((cron is null) <> (watch is null))
);

create index schedules_watching on app.schedules (id) where watch is not null;
create index schedules_workflow_hash on app.schedules (workflow_hash);
create index schedules_due on app.schedules (next_at) where paused_at is null and not retired;
create index schedules_after on app.schedules (after);

-- A tick that was dealt with. Its key admits one job for each. open: its job was not seen to have ended. object: the address of
-- the object that has the job, where the schedule watches a folder.
create table app.schedule_ticks (
    schedule bigint not null references app.schedules on delete cascade,
    at timestamptz not null,
    interval_start timestamptz,
    kind app.tick_kind not null,
    state app.tick_state not null,
    reason text,
    job_id text collate "C",
    open boolean not null default false,
    recorded_at timestamptz not null,
    object text,
    primary key (schedule, at)
);

create index schedule_ticks_open on app.schedule_ticks (schedule, kind) where open;
create index schedule_ticks_waiting on app.schedule_ticks (schedule, kind, at) where state = 'waiting';
create index schedule_ticks_recorded on app.schedule_ticks (recorded_at) where not open and state <> 'waiting';

-- How far a schedule has looked at what it watches. watched: the folder and pattern of this look. since: what was modified
-- before is there already; complete: all of that is known. look: the number of the look, and session who looks; turned_at: when
-- that last got on. trouble: why the last look was not completed, and troubled_at since when none is.
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

-- What a schedule has seen in its folder. since: when this version was first seen; done: the version that has its job, or was
-- there before; gone_at: since when no look finds it.
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

do $$
declare
    _table text;
begin
    foreach _table in array '{platforms,assets,asset_refs,releases,revisions,published_revisions,requests,audit,webhook_endpoints,
                              webhook_callbacks,webhook_messages,webhook_deliveries,webhook_attempts}'::text[] loop
        execute format('alter table app.%I enable row level security', _table);
        execute format('alter table app.%I force row level security', _table);
        execute format(
            'create policy own on app.%I using (current_setting(''anabranch.platform'', true) in (''*'', %I))',
            _table, case _table when 'platforms' then 'id' else 'platform' end);
    end loop;
end;
$$;
