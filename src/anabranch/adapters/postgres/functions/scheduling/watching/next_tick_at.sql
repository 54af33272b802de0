-- The instant of the next tick of a schedule whose ticks come when something is found: now, or just after its last one.
create function app.next_tick_at(_schedule bigint) returns timestamptz language sql stable as $$
    select greatest(app.now(), (select t.at + interval '1 microsecond' from app.schedule_ticks t
                                 where t.schedule = _schedule order by t.at desc limit 1));
$$;
