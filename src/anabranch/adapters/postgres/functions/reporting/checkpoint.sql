-- Keep what an attempt saved for the next one, in place of what was saved before; it is durable when the call returns.
-- False: the attempt is not the current one, or its lane is closed, and nothing changes (E3). _number counts what the
-- attempt saved: a call that is made again, or comes late, never takes the place of a later one. The claim is held
-- meanwhile, so that the attempt can't be taken away before this is done.
create function app.checkpoint(
    _session bigint, _lane bigint, _idx integer, _attempt integer, _number integer, _phase text, _state jsonb,
    _token bigint
) returns boolean language plpgsql as $$
begin
    perform app.assert_read_committed();
    perform from app.claims c
      where c.lane = _lane and c.idx = _idx and c.attempt = _attempt and c.session + 0 = _session
        and c.token = _token for no key update;
    if not found or (select l.closed from app.lanes l where l.id = _lane) then
        return false;
    end if;
    insert into app.checkpoints as k (lane, idx, attempt, number, phase, state, saved_at)
    values (_lane, _idx, _attempt, _number, _phase, _state, app.now())
        on conflict (lane, idx) do update
       set attempt = excluded.attempt, number = excluded.number, phase = excluded.phase, state = excluded.state,
           saved_at = excluded.saved_at
     where (k.attempt, k.number) < (excluded.attempt, excluded.number);
    return true;
end;
$$;
