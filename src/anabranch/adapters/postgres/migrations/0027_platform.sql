-- Platforms: partner systems, their assets with releases and revisions, requests, and the audit.

create type app.processing_status as enum ('queued', 'processing', 'completed', 'failed');
create type app.approval_status as enum ('pending_review', 'approved', 'rejected', 'revoked', 'expired');
create type app.clearance as enum ('uncleared', 'internal', 'public');
create type app.approval_policy as enum ('none', 'one_approver', 'other_approver');

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
    retired_at timestamptz
);

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
create index assets_refs on app.assets using gin (refs jsonb_path_ops);

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
    primary key (release_id, revision)
);

create index revisions_review on app.revisions (platform, made_at)
    where processing_status = 'completed' and approval_status = 'pending_review';

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

create table app.audit (
    number bigint generated always as identity primary key,
    at timestamptz not null,
    platform text collate "C" not null references app.platforms,
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

insert into app.platforms (id, title, required_refs, optional_refs, version_ref, workflows, approval, callback_hosts,
                           made_at, changed_at)
select p.id, p.title, p.required, '{}', p.version, '{"raster": "process_raster", "vector": "process_vector"}',
       p.approval::app.approval_policy, '{}', now(), now()
  from (values ('default', 'This installation', '{id}'::text[], 'version', 'none'),
               ('ddh', 'Data hub', '{dataset_id,resource_id}', 'version_id', 'one_approver'),
               ('arcgis', 'ArcGIS', '{item_id,layer_index}', null, 'one_approver')) p(id, title, required, version, approval);

do $$
declare
    _table text;
begin
    foreach _table in array '{platforms,assets,releases,revisions,requests,audit}'::text[] loop
        execute format('alter table app.%I enable row level security', _table);
        execute format('alter table app.%I force row level security', _table);
        execute format(
            'create policy own on app.%I using (current_setting(''anabranch.platform'', true) in (''*'', %I))',
            _table, case _table when 'platforms' then 'id' else 'platform' end);
    end loop;
end;
$$;
