-- A declared number of seconds as a time that can be added to any date of ours: at most thirty years; null stays null. It
-- runs as its caller, so that the planner can put it in line.
create function app.seconds(_seconds float) returns interval language sql immutable security invoker as $$
    select make_interval(secs => case when _seconds > 1e9 then 1e9 else _seconds end);
$$;
