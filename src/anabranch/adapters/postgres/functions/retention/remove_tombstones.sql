-- Remove tombstones of jobs that were purged longer ago than _age and have left nothing. Returns how many.
create function app.remove_tombstones(_age interval, _batch integer) returns integer language sql as $$
    with old as (
        select t.job from app.tombstones t
         where t.purged_at < app.now() - _age and not exists (select from app.remains r where r.job = t.job)
         order by t.purged_at limit _batch for update skip locked),
    removed as (
        delete from app.tombstones t using old where t.job = old.job returning 1)
    select count(*)::integer from removed;
$$;
