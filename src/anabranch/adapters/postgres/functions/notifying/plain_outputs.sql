-- The outputs of nodes as app.job_result makes them, as their plain values: null where one is in object storage. Any other
-- result stays as it is.
create function app.plain_outputs(_result jsonb) returns jsonb language sql immutable security invoker as $$
    select case when (_result ? 'anabranch:outputs') is not true then _result else (
        select coalesce(jsonb_object_agg(o.key, case
                   when o.value ? 'value' then o.value -> 'value'
                   when o.value -> 'many' ? 'items' then (o.value -> 'many') || jsonb_build_object('items', (
                       select coalesce(jsonb_agg(i.value -> 'value'), '[]')
                         from jsonb_array_elements(o.value -> 'many' -> 'items') i))
                   else o.value -> 'many' end), '{}')
          from jsonb_each(_result -> 'anabranch:outputs') o) end;
$$;
