-- Forget expired objects that were removed. Returns how many.
create function app.forget_objects(_addresses text[]) returns integer language sql as $$
    with removed as (
        delete from app.expired_objects o where o.tier || '://' || o.key = any(_addresses) returning 1)
    select count(*)::integer from removed;
$$;
