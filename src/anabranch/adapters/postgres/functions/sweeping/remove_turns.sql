-- Remove turns of owners that have no open lane there (O5). Returns how many.
create function app.remove_turns(_batch integer) returns integer language sql as $$
    with idle as (
        select t.queue, t.priority, t.owner from app.turns t
         where not exists (select from app.lanes l
                            where l.queue = t.queue and l.priority = t.priority and l.owner = t.owner and not l.closed)
         limit _batch for update skip locked),
    removed as (
        delete from app.turns t using idle
         where t.queue = idle.queue and t.priority = idle.priority and t.owner = idle.owner returning 1)
    select count(*)::integer from removed;
$$;
