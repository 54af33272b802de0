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
    execute format(
        'create table geo.%I (gid bigint not null, geom public.geometry(%s, 4326) not null%s)', _name,
        quote_ident(case when _mixed then 'Geometry' else _geometry_type end || case when _has_z then 'Z' else '' end),
        (select string_agg(format(', %I %s', c.name, c.type::regtype), '' order by c.position)
           from rows from (jsonb_to_recordset(_columns) as (name text, type text)) with ordinality c(name, type, position)));
    execute format('grant insert on geo.%I to anabranch_handler', _name);
    insert into app.layer_tables (name, job_id, geometry_type, has_z, columns, made_at)
    values (_name, _job_id, _geometry_type, _has_z, _columns, app.now());
    return true;
end;
$$;
