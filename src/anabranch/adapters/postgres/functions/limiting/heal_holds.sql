-- Release lanes held by a limit that was deleted, by a breaker that closed or is not declared any more, or by a fault. Whoever
-- deleted a limit calls this next, in a separate commit, and again while it
-- returns that there were some: it waits for lanes, and claims wait for limits while they hold lanes. If that process died
-- in between, the sweeper does it.
create function app.heal_holds(_batch integer, _from bigint default 0, _to bigint default 9223372036854775807)
returns integer language plpgsql as $$
declare
    _lane record;
    _healed integer := 0;
begin
    for _lane in
        select x.id, b.opened_at, b.closed_at
          from app.lanes x left join app.breakers b on x.held = 'breaker ' || b.kind || ' ' || b.name
         where x.held is not null and not x.closed and x.id between _from and _to and b.is_open is not true
           and not exists (select from app.limits m where m.kind || ' ' || m.name = x.held)
         order by x.id limit _batch for update of x
    loop
        perform app.let_go(_lane.id, _lane.opened_at, _lane.closed_at);
        _healed := _healed + 1;
    end loop;
    return _healed;
end;
$$;
