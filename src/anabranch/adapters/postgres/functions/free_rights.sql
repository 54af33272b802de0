-- Give rights back that their holder can't spend now, for anybody to take.
create function app.free_rights(_session bigint, _rights bigint[]) returns void language sql as $$
    update app.rights set session = null, taken_until = null where id = any(_rights) and session = _session;
$$;
