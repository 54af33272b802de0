-- API keys: who may call, as whom, and until when. Of a secret only its hash is kept (S5).
create type app.key_scope as enum ('read', 'submit', 'operate', 'admin');

create table app.keys (
    id bigint generated always as identity primary key,
    key_id text not null unique,
    digest bytea not null check (length(digest) = 32),
    name text not null,
    owner text not null,
    scope app.key_scope not null,
    made_at timestamptz not null,
    made_by text not null,
    expires_at timestamptz,
    used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text
);
