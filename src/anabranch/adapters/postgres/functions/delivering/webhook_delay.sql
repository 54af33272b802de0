-- How long to wait after this many tries: about a day for all of them, each up to a fifth shorter or longer.
create function app.webhook_delay(_tries integer) returns interval language sql volatile security invoker as $$
    select make_interval(secs => (array[5, 30, 120, 600, 1800, 3600, 7200, 14400, 28800, 28800])[least(_tries, 10)]
                                 * (0.8 + 0.4 * random()));
$$;
