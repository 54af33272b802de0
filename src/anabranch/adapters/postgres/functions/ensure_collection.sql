-- Make a collection, or change of one that is there what the caller says of it. Its extent is its items', and no caller's
-- (C2). Answers the document as it stands, and whether that is new; null where pgstac shows it already, as the caller
-- knows, and nothing new is said of it: then nobody is kept waiting.
create function app.ensure_collection(_document jsonb, _said jsonb, _shown boolean default false)
returns table (document jsonb, changed boolean) language plpgsql as $$
declare
    _id constant text := _document ->> 'id';
    _old jsonb;
    _new jsonb;
begin
    if _shown and exists (
            select from app.collections c
             where c.id = _id and c.document = c.document || (_said - '{id,type,extent}'::text[])) then
        return query select null::jsonb, false;
        return;
    end if;
    perform app.lock_catalog();
    select c.document into _old from app.collections c where c.id = _id;
    _new := case when found then _old || (_said - '{id,type,extent}'::text[]) else _document end;
    if _new is distinct from _old then
        insert into app.collections as c (id, document, made_at, changed_at) values (_id, _new, app.now(), app.now())
        on conflict (id) do update set document = excluded.document, changed_at = excluded.changed_at;
    end if;
    return query select _new, _new is distinct from _old;
end;
$$;
