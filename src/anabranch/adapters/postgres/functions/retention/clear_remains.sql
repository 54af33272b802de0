-- Remove what the tasks of purged jobs left, lane by lane in the order of their indexes: at most _rows rows, and no more
-- once they have _bytes, so that the transaction is short whatever there is; one task goes whole. A lane knows how far it
-- is cleared, so no slice steps over the dead rows of the one before. Lanes that another clears are passed over.
-- Returns how many rows there were.
create function app.clear_remains(_jobs bigint[], _rows integer, _bytes bigint) returns integer language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    _lane bigint;
    _first integer;
    _last integer;
    _stop integer;
    _size bigint;
    _count integer;
    _removed integer := 0;
begin
    perform app.assert_read_committed();
    for _lane, _first in
        select r.lane, r.cleared from app.remains r
         where r.job = any(_jobs) order by r.lane limit _rows for update skip locked
    loop
        with slice as (
            (select i.idx, pg_column_size(i.parameters) as size from app.items i
              where i.lane = _lane and i.idx >= _first order by i.idx limit _rows - _removed)
            union all
            (select o.idx, coalesce(pg_column_size(o.result), 0) + coalesce(pg_column_size(o.handed), 0) from app.outcomes o
              where o.lane = _lane and o.idx >= _first order by o.idx limit _rows - _removed)
            union all
            (select a.idx, coalesce(pg_column_size(a.error), 0) from app.attempts a
              where a.lane = _lane and a.idx >= _first order by a.idx limit _rows - _removed)
            union all
            (select t.idx, coalesce(pg_column_size(t.log), 0) from app.traces t
              where t.lane = _lane and t.idx >= _first order by t.idx limit _rows - _removed)
            union all
            (select k.idx, pg_column_size(k.state) from app.checkpoints k
              where k.lane = _lane and k.idx >= _first order by k.idx limit _rows - _removed)),
        counted as (
            select s.idx, s.size, row_number() over by_index as place, sum(s.size) over by_index - s.size as before
              from slice s window by_index as (order by s.idx rows unbounded preceding))
        select min(c.idx) filter (where c.place >= _rows - _removed or c.before >= _bytes), coalesce(sum(c.size), 0)
          into _stop, _size from counted c;
        if _stop = _first and _removed = 0 then
            _stop := _first + 1;
        end if;
        _last := coalesce(_stop - 1, 2147483647);
        with i as (delete from app.items x where x.lane = _lane and x.idx between _first and _last returning 1),
             o as (delete from app.outcomes x where x.lane = _lane and x.idx between _first and _last returning 1),
             a as (delete from app.attempts x where x.lane = _lane and x.idx between _first and _last returning 1),
             t as (delete from app.traces x where x.lane = _lane and x.idx between _first and _last returning 1),
             k as (delete from app.checkpoints x where x.lane = _lane and x.idx between _first and _last returning 1)
        select (select count(*) from i) + (select count(*) from o) + (select count(*) from a) + (select count(*) from t)
               + (select count(*) from k)
          into _count;
        _removed := _removed + _count;
        if _stop is not null then
            update app.remains r set cleared = _stop where r.lane = _lane;
            exit;
        end if;
        delete from app.remains r where r.lane = _lane;
        _removed := _removed + 1;
        _bytes := _bytes - _size;
        exit when _removed >= _rows or _bytes <= 0;
    end loop;
    return _removed;
end;
$$;
