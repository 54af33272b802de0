-- Give rights back that their holder can't spend now, for anybody to take after a delay, and note why.
create function app.free_rights(
    _session bigint, _rights bigint[], _reason text default null, _delay interval default '0'
) returns void language sql as $$
    update app.rights r
       set session = null, taken_until = app.now() + _delay, trouble = coalesce(_reason, r.trouble),
           troubled_at = coalesce(r.troubled_at, app.now())
     where r.id = any(_rights) and r.session = _session;
$$;
