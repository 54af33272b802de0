-- A time that was recorded before the clock was set, converted to the clock as it is now. Times recorded since _since by the
-- new clock stay; up to ten seconds ahead is what concurrent statements can differ.
create function app.move_time(_at timestamptz, _step interval, _since timestamptz) returns timestamptz
language sql stable security invoker as $$
    select case when _at <= _since or _at > app.now() + interval '10 s' then _at + _step else _at end;
$$;
