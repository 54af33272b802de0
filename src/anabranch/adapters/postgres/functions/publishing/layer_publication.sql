-- The publication that the layer of a name shows a platform now; null where there is none. In plpgsql, which keeps its plan, also in
-- sessions that plan every statement again: it is asked for with every tile.
create function app.layer_publication(_name text, _platform text default null) returns uuid language plpgsql stable
set plan_cache_mode = force_generic_plan as $$
begin
    return (select l.publication from app.layers l where l.name = _name and app.may_read(_platform, l.collection, l.public));
end;
$$;
