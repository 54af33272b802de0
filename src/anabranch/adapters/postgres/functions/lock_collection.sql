-- Keep other writers of a collection out until the transaction ends, and let whoever makes the whole catalog anew wait:
-- parallel loads have lost items (C3).
create function app.lock_collection(_collection text) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1635017060, 0);
    perform pg_advisory_xact_lock(1635017061, hashtext(_collection));
end;
$$;
