-- Let a job's table of points take multiple ones, too, or the other way around; finishing it makes all of them multiple.
-- False: the attempt is not the current one any more (E3).
create function app.mix_layer_table(
    _name text, _job_id text, _geometry_type text, _has_z boolean, _node text, _attempt integer, _lane bigint, _idx integer,
    _token bigint
) returns boolean language plpgsql as $$
begin
    if not app.hold_attempt(_job_id, _node, _attempt, _lane, _idx, _token) then
        return false;
    end if;
    update app.layer_tables t set geometry_type = _geometry_type where t.name = _name and t.job_id = _job_id;
    execute format('alter table geo.%I alter geom type public.geometry(%I, 4326)',
                   _name, case when _has_z then 'GeometryZ' else 'Geometry' end);
    return true;
end;
$$;
