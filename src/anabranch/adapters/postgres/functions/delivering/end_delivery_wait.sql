-- The end of app.begin_delivery_wait: announcements need not ring.
create function app.end_delivery_wait() returns boolean language sql volatile as $$
    select pg_advisory_unlock(hashtextextended('anabranch webhooks doorbell', 0));
$$;
