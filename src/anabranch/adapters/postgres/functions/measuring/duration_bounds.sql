-- The upper bounds of the buckets of durations, in seconds; a bucket without one follows. Sums that were counted with other
-- bounds are worth nothing: a migration that changes them empties app.durations and app.histograms.
create function app.duration_bounds() returns double precision[] language sql immutable security invoker as $$
    select '{0.01,0.03,0.1,0.3,1,3,10,30,60,180,600,1800,3600,10800,36000,86400}'::double precision[];
$$;
