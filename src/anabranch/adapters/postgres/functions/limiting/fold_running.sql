-- How many tasks of a limit run; where that took more than _most changes, one sum takes their place. The caller holds the
-- limit's row, so that no two sum the same. A report that has not committed counts as running.
create function app.fold_running(_kind text, _name text, _most integer default 32) returns integer language plpgsql as $$
declare
    _found record;
begin
    select * into _found from app.read_running(_kind, _name);
    if cardinality(_found.places) > _most then
        delete from app.limit_changes c where c.ctid = any(_found.places);
        insert into app.limit_changes (kind, name, change, upto, open)
        values (_kind, _name, _found.running, pg_snapshot_xmax(_found.seen),
                array(select pg_snapshot_xip(_found.seen)) || pg_current_xact_id());
    end if;
    return _found.running;
end;
$$;
