-- Keep retention from removing some objects until the transaction ends, while they are published, or leave a publication.
create function app.lock_objects(_keys text[]) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(1635017062, x.lock)
       from (select distinct app.object_lock(k) as lock from unnest(_keys) k order by 1) x;
end;
$$;
