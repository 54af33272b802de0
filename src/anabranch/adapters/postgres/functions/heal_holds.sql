-- Let lanes go that a limit holds which is gone: a claim may have held them back in the moment in which it went.
create function app.heal_holds(_batch integer) returns void language sql as $$
    update app.lanes l set held = null
     where l.id in (
        select x.id from app.lanes x
         where x.held is not null and not x.closed
           and not exists (select from app.limits m where m.kind || ' ' || m.name = x.held)
         order by x.id limit _batch for update skip locked);
$$;
