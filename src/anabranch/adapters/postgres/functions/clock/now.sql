-- The time that decides leases, timers and timeouts (E18). Tests replace it to move the clock. It runs as its caller,
-- so that the planner can put it in line.
create function app.now() returns timestamptz language sql stable security invoker as $$
    select statement_timestamp();
$$;
