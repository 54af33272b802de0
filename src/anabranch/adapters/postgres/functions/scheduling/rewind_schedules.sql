-- Plan again from now on what was dealt with up to a time that is still to come: the clock was set back, or it was ahead.
-- Ticks that come again are found in their table, so none gets a second job. Returns how many schedules it were.
create function app.rewind_schedules() returns integer language plpgsql as $$
declare
    _rewound integer;
begin
    perform app.assert_read_committed();
    update app.schedules s set after = app.now(), next_at = null
     where s.id = any(array(select x.id from app.schedules x where x.after > app.now() for no key update skip locked));
    get diagnostics _rewound = row_count;
    return _rewound;
end;
$$;
