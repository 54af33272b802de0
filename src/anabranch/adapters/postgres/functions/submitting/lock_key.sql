-- Wait for others that submit under the same key, and make others wait, until the transaction ends: of several at once, the
-- first makes the job and the rest get its answer (E15).
create function app.lock_key(_scope text, _key text) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended(_key, hashtextextended(_scope, 0)));
end;
$$;
