-- The seconds until the next attempt after so many failures, with jitter, as a worker reckons it.
create function app.retry_delay(_policy jsonb, _failures integer) returns float language sql volatile as $$
    select least(coalesce((_policy ->> 'initial_delay_seconds')::float, 5)
                     * case _policy ->> 'backoff' when 'fixed' then 1 when 'linear' then _failures + 1
                            else 2.0 ^ least(_failures, 30) end,
                 coalesce((_policy ->> 'max_delay_seconds')::float, 300), 1e9) * (0.8 + 0.2 * random());
$$;
