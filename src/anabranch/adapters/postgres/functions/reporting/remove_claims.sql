-- Remove claims, by the rows that the caller locked.
create function app.remove_claims(_rows tid[]) returns void language plpgsql
set enable_seqscan = off set enable_indexscan = off set enable_bitmapscan = off as $$
begin
    delete from app.claims c where c.ctid = any(_rows);
end;
$$;
