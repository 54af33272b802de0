-- Give back what a session holds by the tables but not in hand, for longer than it takes to hear of it: claims and
-- rights whose reply was lost. Without this they would hang for ever, for their session lives. Free of charge.
-- Rights come last, as in a cancel; one that is being spent at this moment is not lost. Answers how many tasks there
-- were. _in_hand: as in app.beat.
create function app.reconcile(_session bigint, _in_hand jsonb) returns integer language plpgsql as $$
declare
    _since timestamptz;
    _released integer;
begin
    select app.now() - s.lease / 3 into _since from app.sessions s where s.id = _session;
    _released := (
        select app.release(coalesce(jsonb_agg(jsonb_build_object(
                   'session', c.session, 'lane', c.lane, 'idx', c.idx, 'attempt', c.attempt, 'ended', 'lost')), '[]'))
          from app.claims c
          left join jsonb_to_recordset(_in_hand) as h(lane bigint, idx integer, attempt integer)
            on h.lane = c.lane and h.idx = c.idx and h.attempt = c.attempt
         where c.session = _session and c.claimed_at < _since and h.lane is null);
    update app.rights r set session = null, taken_until = null
     where r.id in (
        select x.id from app.rights x
         where x.session = _session and x.taken_until < app.now() + (app.now() - _since) * 2
           for update skip locked);
    return _released;
end;
$$;
