-- Keep other publishers out until the transaction ends. One lock for all collections, not one for each: pgstac makes and
-- changes partitions while it loads, and two loads that do so wait for each other, or lose their items without a word.
create function app.lock_catalog() returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(1635017060, 0);
end;
$$;
