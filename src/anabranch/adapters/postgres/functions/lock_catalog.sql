-- Keep all writers of collections out until the transaction ends; see lock_collection.
create function app.lock_catalog() returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(1635017060, 0);
end;
$$;
