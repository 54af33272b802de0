-- Remove some ticks that were recorded this long ago, but for those that wait or whose job may go on. Returns how many.
create function app.remove_ticks(_age interval, _batch integer) returns integer language plpgsql as $$
declare
    _removed integer;
begin
    perform app.assert_read_committed();
    delete from app.schedule_ticks t
     where t.ctid = any(array(
        select x.ctid from app.schedule_ticks x
         where x.recorded_at < app.now() - _age and not x.open and x.state <> 'waiting'
         limit _batch for update skip locked));
    get diagnostics _removed = row_count;
    return _removed;
end;
$$;
