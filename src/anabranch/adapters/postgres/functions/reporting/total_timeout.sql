-- The error of a task that was not done in time, over all its attempts.
create function app.total_timeout(_seconds float) returns jsonb language sql immutable as $$
    select jsonb_build_object('category', 'transient', 'code', 'task.total_timeout',
                              'message', format('it was not done %s s after its first start', _seconds));
$$;
