-- Note a page of a look: _objects, [{address, version, size, modified}, …], are all that there are after one address and up to
-- another (_through; null: to the end). What was seen there before and is not listed is gone from now on. A version counts as
-- unchanged since it was first seen. What was there before the schedule is done with, where _skips and no look was completed.
-- Returns the addresses of those that were unchanged for so long and have no job, or null where this look is over (app.hold_look).
create function app.note_objects(
    _session bigint, _schedule bigint, _version integer, _look integer, _after text, _through text, _objects jsonb,
    _stable interval, _skips boolean
) returns jsonb language plpgsql as $$
declare
    _w app.watches;
begin
    perform app.assert_read_committed();
    select h.* into _w from app.hold_look(_session, _schedule, _version, _look) h;
    if not found then
        return null;
    end if;
    insert into app.watched_objects as k (schedule, address, version, size, modified, since, done)
    select _schedule, o.address, o.version, o.size, o.modified, app.now(),
           case when _skips and not _w.complete and o.modified < _w.since then o.version end
      from jsonb_to_recordset(_objects) as o(address text, version text, size bigint, modified timestamptz)
     where not exists (
        select from app.watched_objects x
         where x.schedule = _schedule and x.address = o.address and x.version = o.version and x.gone_at is null
           and x.since <= app.now())
    on conflict (schedule, address) do update
       set version = excluded.version, size = excluded.size, modified = excluded.modified, since = excluded.since,
           gone_at = null;
    update app.watched_objects k set gone_at = app.now()
     where k.schedule = _schedule and k.gone_at is null and k.address > _after collate "C"
       and (_through is null or k.address <= _through collate "C")
       and not exists (select from jsonb_to_recordset(_objects) as o(address text) where o.address = k.address);
    return coalesce(
        (select jsonb_agg(k.address order by k.address)
           from jsonb_to_recordset(_objects) as o(address text)
           join app.watched_objects k on k.schedule = _schedule and k.address = o.address
          where k.done is distinct from k.version and k.since <= app.now() - _stable), '[]');
end;
$$;
