-- Note that a key signs no more, where it signed anything.
create function app.retire_signing_key(_id text) returns void language sql as $$
    update app.signing_keys k set retired_at = app.now() where k.id = _id and k.retired_at is null;
$$;
