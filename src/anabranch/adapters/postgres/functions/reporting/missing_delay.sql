-- How long a task waits whose worker has no handler for it: a moment where another has it, else longer and longer, up to
-- five minutes, so that what nobody can run costs next to nothing.
create function app.missing_delay(_lane bigint, _idx integer, _first_at timestamptz, _delay float) returns interval
language plpgsql stable as $$
begin
    return greatest(make_interval(secs => coalesce(_delay, 0)), case when not app.has_handler(app.handler_of(_lane, _idx))
                    then least(greatest(interval '30 s', (app.now() - _first_at) / 2), interval '5 min') end);
end;
$$;
