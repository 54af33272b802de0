-- Whether objects that nothing names after this transaction may be removed: not while a backup runs, whose snapshot may name
-- them. One that begins waits for the end of this transaction.
create function app.may_remove() returns boolean language sql as $$
    select pg_try_advisory_xact_lock_shared(7093847162905);
$$;
