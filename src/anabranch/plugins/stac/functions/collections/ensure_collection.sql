-- Make a collection, or change of one that is there what the caller says of it. Its extent is its items', and no caller's
-- (C2). Returns the document as it stands, and whether that is new. Not _alone: nobody is kept waiting, and where there is
-- something to make or to change that is left, and the answer null. AN011: a job would change a
-- collection that its platform does not own. AN019: its platform may not write to it.
create function app.ensure_collection(
    _document jsonb, _said jsonb, _alone boolean default true, _job_id text default null, _actor text default null
) returns table (document jsonb, changed boolean) language plpgsql as $$
declare
    _id constant text := _document ->> 'id';
    _old jsonb;
    _new jsonb;
    _platform constant text := app.job_platform(_job_id);
begin
    if not app.may_write(_platform, _id) then
        raise exception 'there is no collection % that platform % may publish to', _id, _platform using errcode = 'AN019';
    end if;
    if not _alone then
        return query select (select c.document from app.collections c
                              where c.id = _id and c.document = c.document || (_said - '{id,type,extent}'::text[])), false;
        return;
    end if;
    perform app.lock_catalog();
    select c.document into _old from app.collections c where c.id = _id;
    _new := case when found then _old || (_said - '{id,type,extent}'::text[]) else _document end;
    if _old is not null and _new <> _old and exists (
        select from app.publication_keys k
         where k.kind = 'collection' and k.key = _id
           and k.owner <> _platform) then
        raise exception 'collection % belongs to another platform', _id using errcode = 'AN011';
    end if;
    if _new is distinct from _old then
        insert into app.collections as c (id, document, made_at, changed_at) values (_id, _new, app.now(), app.now())
        on conflict (id) do update set document = excluded.document, changed_at = excluded.changed_at;
        perform app.record_collection(_id, 'publish', _new, _job_id, _actor, null);
    end if;
    return query select _new, _new is distinct from _old;
end;
$$;
