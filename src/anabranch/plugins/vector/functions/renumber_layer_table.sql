-- Number the rows of a completed table from _first on, in their order, unless that is below their numbers. False: it is a part of
-- a publication, which never changes.
create function app.renumber_layer_table(_name text, _first bigint) returns boolean language plpgsql as $$
declare
    _lowest bigint;
begin
    perform from app.layer_tables t where t.name = _name for update;
    if exists (select from app.published_tables p where p.table_name = _name) then
        return false;
    end if;
    execute format('select min(t.gid) from geo.%I t', _name) into _lowest;
    if _lowest < _first then  -- by negative numbers, since each must be unique at any time
        execute format('update geo.%I set gid = -gid', _name);
        execute format('update geo.%I set gid = $1 - gid', _name) using _first - _lowest;
    end if;
    return true;
end;
$$;
