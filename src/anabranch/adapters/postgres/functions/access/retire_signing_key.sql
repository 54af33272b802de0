-- Retire a key; it is recorded if it signed nothing yet, so that a worker that still has it does not list it as active.
create function app.retire_signing_key(_id text, _public_key text) returns void language sql as $$
    insert into app.signing_keys as k (id, public_key, first_used_at, retired_at)
    values (_id, _public_key, app.now(), app.now())
        on conflict (id) do update set retired_at = coalesce(k.retired_at, excluded.retired_at);
$$;
