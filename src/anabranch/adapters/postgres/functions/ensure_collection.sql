-- Make a collection, or change of one that is there what the caller says of it. Its extent is its items', and no caller's
-- (C2). Answers the document as it stands, and whether that is new.
create function app.ensure_collection(_document jsonb, _said jsonb)
returns table (document jsonb, changed boolean) language plpgsql as $$
declare
    _id constant text := _document ->> 'id';
    _old jsonb;
    _new jsonb;
begin
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
