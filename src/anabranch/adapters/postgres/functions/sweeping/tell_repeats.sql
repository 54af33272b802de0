-- The name of app.record_repeats in release 33.
create function app.tell_repeats(_batch integer, _from bigint default 0, _to bigint default 9223372036854775807)
returns integer language sql as $$
    select app.record_repeats(_batch, _from, _to);
$$;
