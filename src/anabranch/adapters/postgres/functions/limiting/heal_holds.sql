-- Let lanes go that a limit holds which is gone. The caller that took the limit away calls it right after, in a commit of its
-- own, again and again while it answers that there were some, for it waits for lanes and claims wait for limits with lanes in hand; the sweeper does for one who died between.
create function app.heal_holds(_batch integer, _from bigint default 0, _to bigint default 9223372036854775807)
returns integer language sql as $$
    with healed as (
    update app.lanes l set held = null, freed_at = app.now()
     where l.id in (
        select x.id from app.lanes x
         where x.held is not null and not x.closed and x.id between _from and _to
           and not exists (select from app.limits m where m.kind || ' ' || m.name = x.held)
         order by x.id limit _batch for update)
    returning 1)
    select count(*)::integer from healed;
$$;
