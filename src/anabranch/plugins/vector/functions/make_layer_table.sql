-- Make the table of a job's layer, empty, for the handlers to copy rows into; one that an earlier attempt made is made again.
-- _columns: [{name, type}, …], of types that PostgreSQL has. _mixed: single geometries are among the multiple ones; finishing
-- it makes them multiple. False: the attempt is not the current one any more (E3).
create function app.make_layer_table(
    _name text, _job_id text, _geometry_type text, _mixed boolean, _has_z boolean, _columns jsonb, _node text,
    _attempt integer, _lane bigint, _idx integer, _token bigint
) returns boolean language plpgsql as $$
begin
    if not app.hold_attempt(_job_id, _node, _attempt, _lane, _idx, _token) then
        return false;
    end if;
    if exists (select from app.layer_tables t where t.name = _name) then
        perform app.drop_layer_table(_name);
    end if;
    perform app.create_layer_table(_name, _job_id, _geometry_type, _mixed, _has_z, _columns);
    execute format('grant insert on geo.%I to anabranch_handler', _name);
    return true;
end;
$$;
