-- One transaction at a time takes or ends deliveries: so it sees which is the first of its subject.
create function app.lock_deliveries() returns void language sql as $$
    select pg_advisory_xact_lock(hashtextextended('anabranch webhooks', 0));
$$;
