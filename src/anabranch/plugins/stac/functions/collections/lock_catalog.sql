-- Keep all publishers out until the transaction ends: for who changes all of the catalog, or publishes what pgstac makes or
-- changes a partition for. Two that do so wait for each other, or lose their items without a word.
create function app.lock_catalog() returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(1635017060, 0);
end;
$$;
