-- How many tasks of a limit run by what its changes sum up to, with the rows of these and the snapshot that saw them. A sum
-- says which transactions it has seen, so only later ones and those that were under way then are looked up: what was
-- summed is never passed again, though a long transaction keeps its dead rows. The numbers of transactions begin again
-- in a database that is loaded from a dump; then everything is read.
create function app.read_running(
    _kind text, _name text, out running integer, out places tid[], out seen pg_snapshot
) language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    _upto xid8;
    _open xid8[];
begin
    seen := pg_current_snapshot();
    select c.upto, c.open into _upto, _open from app.limit_changes c
     where c.kind = _kind and c.name = _name and c.upto is not null order by c.xid desc limit 1;
    if not found or _upto > pg_snapshot_xmax(seen) then
        _upto := '0';
    end if;
    select coalesce(sum(c.change), 0), array_agg(c.place) into running, places
      from (select x.ctid as place, x.change from app.limit_changes x
             where x.kind = _kind and x.name = _name and x.xid >= _upto
            union all
            select x.ctid, x.change from app.limit_changes x
             where x.kind = _kind and x.name = _name and x.xid = any(_open) and x.xid < _upto) c;
end;
$$;
