-- The approximate size of a JSON value in bytes, uncompressed, as its reader gets it.
create function app.data_bytes(_data jsonb) returns integer language sql stable security invoker as $$
    select case when _data is null then 0 when pg_column_compression(_data) is null then pg_column_size(_data)
                else octet_length(_data::text) end;
$$;
