-- Signed manifests of what is published, and the versions of the handlers that made it.

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

-- The signed manifest of an item, as it stands: text, because its bytes are what was signed.
create table app.manifests (
    collection text collate "C" not null,
    item text collate "C" not null,
    envelope text not null,
    signing_key text collate "C" not null references app.signing_keys,
    primary key (collection, item),
    foreign key (collection, item) references app.catalog_items on delete cascade
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
