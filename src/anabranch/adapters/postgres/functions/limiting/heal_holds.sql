-- Release lanes held by a limit that was deleted. Whoever deleted it calls this next, in a separate commit, and again while it
-- returns that there were some: it waits for lanes, and claims wait for limits while they hold lanes. If that process died
-- in between, the sweeper does it.
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
