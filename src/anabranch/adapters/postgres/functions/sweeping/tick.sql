-- Note that a duty is done (O2), and answer since when it has been done without a break. Null: another is at it now.
create function app.tick(_name text, _session bigint, _every interval) returns timestamptz language plpgsql as $$
declare
    _since timestamptz;
begin
    _since := app.watch(_name, _session, _every);
    update app.duties set session = _session, every = _every, ticked_at = app.now()
     where name = _name and _since is not null;
    return _since;
end;
$$;
