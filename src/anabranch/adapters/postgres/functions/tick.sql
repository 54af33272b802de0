-- Note that a duty is done (O2), and answer since when it has been done without a break. Null: another is at it now.
create function app.tick(_name text, _session bigint, _every interval) returns timestamptz language plpgsql as $$
declare
    _since timestamptz;
begin
    insert into app.duties (name, session, every, unbroken_since, ticked_at)
    values (_name, _session, _every, app.now(), app.now()) on conflict do nothing;
    perform from app.duties where name = _name for update skip locked;
    if not found then
        return null;
    end if;
    update app.duties
       set session = _session, every = _every, ticked_at = app.now(),
           unbroken_since = case when ticked_at + 3 * _every < app.now() then app.now() else unbroken_since end
     where name = _name
    returning unbroken_since into _since;
    return _since;
end;
$$;
