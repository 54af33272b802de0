-- Take the right to write to a table from the handlers once its rows were all copied, and make its geometries multiple where
-- single ones are among them. Whether it was finished before; null: there is no such table.
create function app.close_layer_table(_name text) returns boolean language plpgsql as $$
declare
    _finished boolean;
    _type text;
begin
    select t.rows is not null, t.geometry_type || case when t.has_z then 'Z' else '' end into _finished, _type
      from app.layer_tables t where t.name = _name for update;
    if not _finished then
        execute format('revoke insert on geo.%I from anabranch_handler', _name);
        if format('geo.%I', _name)::regclass in (
            select a.attrelid from pg_attribute a
             where a.attname = 'geom' and public.postgis_typmod_type(a.atttypmod) in ('Geometry', 'GeometryZ')) then
            execute format('alter table geo.%I alter geom type public.geometry(%I, 4326) using public.st_multi(geom)',
                           _name, _type);
        end if;
    end if;
    return _finished;
end;
$$;
