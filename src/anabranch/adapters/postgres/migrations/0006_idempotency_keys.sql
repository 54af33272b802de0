-- Submissions carry idempotency keys: what was asked under a key, and the answer, until the key expires.
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
