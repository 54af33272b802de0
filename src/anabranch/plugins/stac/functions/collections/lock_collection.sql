-- Keep other publishers of a collection out until the transaction ends, and those out who need the catalog for themselves.
create function app.lock_collection(_collection text) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1635017060, 0);
    perform pg_advisory_xact_lock(1635017061, hashtext(_collection));
end;
$$;
