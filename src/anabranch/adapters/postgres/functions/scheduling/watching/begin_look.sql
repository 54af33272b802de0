-- Begin the look of a schedule at what it watches whose next one is due, and that no live process looks at; _busy: those that
-- this process does. Of several, one of the platform at whose folders the fewest looks go on, however many it has. A look that did
-- not get on for so long (_silence) is given up, and its process can note nothing more. After
-- another folder or pattern was set, all that was seen counts as gone until it is found again. Returns what is watched and what
-- jobs are made of, or no row. now: the time that decides.
create function app.begin_look(_session bigint, _busy bigint[], _silence interval)
returns table (
    id bigint, platform text, name text, workflow_hash text, inputs jsonb, parameters jsonb, by_scope text, version integer,
    watch jsonb, look integer, now timestamptz
) language plpgsql as $$
declare
    _w app.watches;
    _s app.schedules;
    _watched jsonb;
begin
    perform app.assert_read_committed();
    insert into app.watches (schedule, watched, since, turned_at, next_at)
    select s.id, '{}', s.changed_at, app.now(), app.now() from app.schedules s
     where s.watch is not null and not exists (select from app.watches w where w.schedule = s.id)
     order by s.id limit 100
    on conflict do nothing;
    select w.* into _w
      from app.watches w join app.schedules s on s.id = w.schedule
      left join (select p.platform, count(*) as looks from app.watches o join app.schedules p on p.id = o.schedule
                  where o.session is not null group by 1) going_on on going_on.platform = s.platform
     where s.watch is not null and s.paused_at is null and not s.retired and s.trouble is null
       -- A time that is further ahead than it can be set is of a clock that was ahead.
       and (w.next_at <= app.now() or w.next_at > app.now() + make_interval(secs => (s.watch ->> 'poll_seconds')::float))
       and w.schedule <> all(_busy)
       and (w.session is null or w.session = _session or w.turned_at not between app.now() - _silence and app.now()
            or not exists (select from app.sessions x where x.id = w.session and x.dead_at is null))
     order by coalesce(going_on.looks, 0), w.next_at limit 1 for no key update of w skip locked;
    if not found then
        return;
    end if;
    select s.* into strict _s from app.schedules s where s.id = _w.schedule;
    _watched := jsonb_build_object('watch', _s.watch -> 'watch', 'pattern', _s.watch -> 'pattern');
    if _watched <> _w.watched then
        update app.watched_objects k set gone_at = app.now() where k.schedule = _s.id and k.gone_at is null;
        _w.since := _s.changed_at;
        _w.complete := false;
    end if;
    update app.watches w
       set watched = _watched, since = _w.since, complete = _w.complete, look = w.look + 1, session = _session,
           turned_at = app.now()
     where w.schedule = _s.id;
    return query select _s.id, _s.platform, _s.name, _s.workflow_hash, _s.inputs, _s.parameters, _s.by_scope, _s.version,
                        _s.watch, _w.look + 1, app.now();
end;
$$;
