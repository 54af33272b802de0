-- What readers see of an item, without what says which job made it and where that put its files.
create function app.item_content(_document jsonb) returns jsonb language sql immutable as $$
    select jsonb_build_object(
           'geometry', _document -> 'geometry',
           'bbox', _document -> 'bbox',
           'properties', (_document -> 'properties') - '{created,processing:lineage,processing:expression}'::text[],
           'assets', (select jsonb_object_agg(a.name, a.asset - 'href')
                        from jsonb_each((_document -> 'assets') - 'report') a(name, asset)));
$$;
