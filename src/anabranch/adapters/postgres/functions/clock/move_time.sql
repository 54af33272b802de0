-- A time that was noted by the clock as it was before a step, as it is by the clock now. What was noted since _since by the
-- clock as it is stays; ten seconds ahead is no more than another statement can be.
create function app.move_time(_at timestamptz, _step interval, _since timestamptz) returns timestamptz
language sql stable security invoker as $$
    select case when _at <= _since or _at > app.now() + interval '10 s' then _at + _step else _at end;
$$;
