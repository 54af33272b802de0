-- Remove tasks that wait for an attempt that will never be: their lane is closed (E13). Answers how many.
create function app.tidy_due(_batch integer) returns integer language sql as $$
    with dead as (
        select d.lane, d.idx from app.due d join app.lanes l on l.id = d.lane
         where l.closed limit _batch for update of d skip locked),
    removed as (
        delete from app.due d using dead where d.lane = dead.lane and d.idx = dead.idx returning 1)
    select count(*)::integer from removed;
$$;
