-- Forget some objects that no look of their schedule has found for so long. Returns how many.
create function app.remove_gone_objects(_age interval, _batch integer) returns integer language plpgsql as $$
declare
    _removed integer;
begin
    perform app.assert_read_committed();
    delete from app.watched_objects k
     where k.ctid = any(array(
        select x.ctid from app.watched_objects x where x.gone_at < app.now() - _age limit _batch for update skip locked));
    get diagnostics _removed = row_count;
    return _removed;
end;
$$;
