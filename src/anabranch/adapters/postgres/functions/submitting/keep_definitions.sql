-- Keep the definitions that child jobs will run, by their hash: [{hash, workflow, definition, parts}, …]. One that is
-- there is young again, so that retention leaves it while jobs are submitted. In the order of their hashes, for two that
-- keep the same ones wait for each other's.
create function app.keep_definitions(_definitions jsonb) returns void language sql as $$
    insert into app.workflows (hash, workflow, definition, created_at, parts)
    select d ->> 'hash', d ->> 'workflow', d -> 'definition', app.now(),
           array(select jsonb_array_elements_text(d -> 'parts'))
      from jsonb_array_elements(_definitions) d order by d ->> 'hash'
    on conflict (hash) do update set created_at = excluded.created_at, parts = excluded.parts;
$$;
