-- Take one task, where a claim of many failed. A lane from which none can be taken is held back until the next sweep lets
-- it go, so that one bad row hurts only itself (E10); one for which a limit or breaker leaves no room is passed over, as by app.claim.
-- Returns as app.claim does.
create function app.claim_apart(_session bigint, _queues text[]) returns jsonb language plpgsql as $$
declare
    _limited boolean := exists (select from app.limits) or exists (select from app.breakers b where b.is_open);
    _lane app.lanes;
    _passed bigint[] := '{}';
begin
    if _limited then
        lock table app.claims in row exclusive mode;
        perform app.free_held(_queues);
        perform app.free_probes(_queues);
    end if;
    perform app.ripen(_queues);
    for _try in 1..32 loop
        _lane := app.lock_lane(app.find_turns(_queues), false, _passed, app.list_offers(_session));
        if _lane.id is null then
            return null;
        end if;
        if _limited and (app.find_limit_room(_lane) = 0 or app.is_broken(_lane.queue, _lane.handler)) then
            _passed := _passed || _lane.id;
            continue;
        end if;
        begin
            return app.claim(_session, _queues, 1, '{}', false);
        exception when data_exception or integrity_constraint_violation or program_limit_exceeded or internal_error then
            update app.lanes l set held = left('fault ' || sqlerrm, 200) where l.id = _lane.id;
        end;
    end loop;
    return null;
end;
$$;
