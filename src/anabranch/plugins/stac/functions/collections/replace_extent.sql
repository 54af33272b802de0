-- Give a collection the extent that its items have by now; the caller has published some in this transaction, and so
-- holds the lock (C2). Returns its document.
create function app.replace_extent(_collection text, _extent jsonb) returns jsonb language sql as $$
    update app.collections set document = jsonb_set(document, '{extent}', _extent), changed_at = app.now()
     where id = _collection
    returning document;
$$;
