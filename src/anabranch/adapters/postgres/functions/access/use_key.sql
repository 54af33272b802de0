-- Note that a key was used, to the minute: a write for each request would cost more than the request.
create function app.use_key(_key_id text) returns void language sql as $$
    update app.keys set used_at = app.now()
     where key_id = _key_id and coalesce(used_at < app.now() - interval '1 minute', true);
$$;
