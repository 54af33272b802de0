-- The number of the first bucket that holds a duration, from 0. A bound is in its bucket: times are whole microseconds, so
-- half of one less tells them apart.
create function app.find_bucket(_seconds double precision) returns integer language sql immutable security invoker as $$
    select width_bucket(_seconds - 5e-7, app.duration_bounds());
$$;
