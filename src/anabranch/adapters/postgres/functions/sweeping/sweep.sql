-- The name of app.begin_round in release 33.
create function app.sweep(_session bigint, _every interval, _batch integer, _ticks boolean default false)
returns integer language sql as $$
    select app.begin_round(_session, _every, _batch);
$$;
