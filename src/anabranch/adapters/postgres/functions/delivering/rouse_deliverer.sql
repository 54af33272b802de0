-- The end of app.doze_deliverer: announcements need not ring.
create function app.rouse_deliverer() returns boolean language sql volatile as $$
    select pg_advisory_unlock(hashtextextended('anabranch webhooks doorbell', 0));
$$;
