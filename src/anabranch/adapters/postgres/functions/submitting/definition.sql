-- The definition with this hash, as its jobs were pinned to it.
create function app.definition(_hash text) returns jsonb language sql stable as $$
    select definition from app.workflows where hash = _hash;
$$;
