-- Keep what running attempts of a session have printed so far; their reports replace it. An attempt that is not the
-- current one changes nothing (E3). Claims that another transaction holds are skipped: the heartbeat calls this, and one
-- that waited for a lock could lose its lease. Returns those kept, as [lane, idx].
-- _printed: [{lane, idx, attempt, token, log}, …].
create function app.keep_output(_session bigint, _printed jsonb) returns jsonb language plpgsql as $$
declare
    _kept jsonb;
begin
    with current as (
        select c.lane, c.idx, c.attempt, h.log
          from jsonb_to_recordset(_printed) as h(lane bigint, idx integer, attempt integer, token bigint, log text)
          join app.claims c on c.lane = h.lane and c.idx = h.idx and c.attempt = h.attempt and c.session + 0 = _session
           and c.token = h.token
           for update of c skip locked),
    kept as (
        insert into app.traces (lane, idx, attempt, log)
        select lane, idx, attempt, log from current
            on conflict (lane, idx, attempt) do update set log = excluded.log
        returning lane, idx)
    select coalesce(jsonb_agg(jsonb_build_array(k.lane, k.idx)), '[]') into _kept from kept k;
    return _kept;
end;
$$;
