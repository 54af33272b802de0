-- Make or replace a view in schema geo, with the comments of the item that it is published with; readers may select from it.
-- AN017: a user has a table or view of this name.
create function app.replace_view(_name text, _query text, _item jsonb) returns void language plpgsql as $$
declare
    _column record;
begin
    if exists (select from pg_class c where c.relnamespace = 'geo'::regnamespace and c.relname = _name
                  and (c.relkind, c.relowner) <> ('v', 'anabranch_owner'::regrole)) then
        raise exception 'geo.% is a table or view of a user', _name using errcode = 'AN017';
    end if;
    begin
        execute format('create or replace view geo.%I as %s', _name, _query);
    exception when invalid_table_definition then  -- other columns than before
        execute format('drop view geo.%I', _name);
        execute format('create view geo.%I as %s', _name, _query);
    end;
    execute format('comment on view geo.%I is %L', _name,
                   concat_ws(E'\n', _item #>> '{properties,title}', _item #>> '{properties,description}'));
    for _column in
        select c ->> 'name' as name, c ->> 'description' as description
          from jsonb_array_elements(_item #> '{properties,table:columns}') c
         where c ? 'description'
    loop
        execute format('comment on column geo.%I.%I is %L', _name, _column.name, _column.description);
    end loop;
    execute format('grant select on geo.%I to anabranch_features, anabranch_geo, anabranch_reader', _name);
end;
$$;
