-- Remove sessions that died longer ago than _age and hold nothing. Returns how many.
create function app.remove_sessions(_age interval, _batch integer) returns integer language sql as $$
    with old as (
        select s.id from app.sessions s
         where s.dead_at < app.now() - _age
           and not exists (select from app.claims c where c.session = s.id)
           and not exists (select from app.rights r where r.session = s.id)
         limit _batch for update skip locked),
    removed as (
        delete from app.sessions s using old where s.id = old.id returning 1)
    select count(*)::integer from removed;
$$;
