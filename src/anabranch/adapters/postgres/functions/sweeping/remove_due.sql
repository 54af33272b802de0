-- Remove tasks between attempts, by the rows that the caller read under their lane's lock.
create function app.remove_due(_rows tid[]) returns void language plpgsql
set enable_seqscan = off set enable_indexscan = off set enable_bitmapscan = off as $$
begin
    delete from app.due d where d.ctid = any(_rows);
end;
$$;
