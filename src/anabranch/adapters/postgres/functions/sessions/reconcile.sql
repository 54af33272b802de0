-- Give back what a session holds by the tables but not in hand: claims and rights whose reply was lost. Without this
-- they would hang forever, for their session lives. Free of charge. By default those that are younger than a third of
-- the lease are left alone, for their reply may be on its way; _age says otherwise. Rights come last, as in a cancel; one
-- that is being spent at this moment is not lost. Returns how many tasks there were.
-- _in_hand: as in app.beat; _rights: those in hand; _read_at: when they were in hand, where the call may come late.
create function app.reconcile(
    _session bigint, _in_hand jsonb, _rights bigint[] default '{}', _age interval default null,
    _read_at timestamptz default null
) returns integer language plpgsql as $$
declare
    _lease interval := (select s.lease from app.sessions s where s.id = _session);
    _since timestamptz := coalesce(_read_at, app.now()) - coalesce(_age, _lease / 3);
    _released integer;
begin
    _released := (
        select app.release(coalesce(jsonb_agg(jsonb_build_object(
                   'session', c.session, 'lane', c.lane, 'idx', c.idx, 'attempt', c.attempt,
                   'token', c.token, 'ended', 'lost')), '[]'))
          from app.claims c
          left join jsonb_to_recordset(_in_hand) as h(lane bigint, idx integer, attempt integer, token bigint)
            on h.lane = c.lane and h.idx = c.idx and h.attempt = c.attempt and h.token = c.token
         where c.session = _session and c.claimed_at <= _since and h.lane is null);
    if _rights is not null then
        update app.rights r set session = null, taken_until = null
         where r.id in (
            select x.id from app.rights x
             where x.session = _session and x.id <> all(_rights) and x.taken_until < _since + _lease
               for update skip locked);
    end if;
    return _released;
end;
$$;
