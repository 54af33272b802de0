-- Whether a list of events includes one: by its name, by the beginning of it (`job.*`), or by `*`.
create function app.wants_event(_events text[], _event text) returns boolean language sql immutable security invoker as $$
    select exists (select from unnest(_events) w
                    where w in ('*', _event) or (w like '%.*' and starts_with(_event, left(w, -1))));
$$;
