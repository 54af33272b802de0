-- Renew a session's lease, note which of its tasks have started, and answer which to stop: those that are no longer its
-- own, and those whose lane is closed (E7). Null: the sweeper gave its tasks to others and the process must begin a new
-- session; a dead session never comes back to life (E3).
-- _in_hand: [{lane, idx, attempt, started}, …].
create function app.beat(_session bigint, _in_hand jsonb) returns jsonb language plpgsql as $$
begin
    update app.sessions set beat_at = app.now() where id = _session and dead_at is null;
    if not found then
        return null;
    end if;
    -- Claims that a report is at are passed over: a heart that waited for it would cost its session the lease.
    with begun as (
        select c.ctid as row
          from jsonb_to_recordset(_in_hand) as h(lane bigint, idx integer, attempt integer, started boolean)
          join app.claims c on c.lane = h.lane and c.idx = h.idx and c.attempt = h.attempt and c.session + 0 = _session
         where h.started and c.started_at is null
           for update of c skip locked)
    update app.claims c set started_at = app.now() from begun b where c.ctid = b.row;
    return (
        select coalesce(jsonb_agg(jsonb_build_array(h.lane, h.idx, h.attempt)), '[]')
          from jsonb_to_recordset(_in_hand) as h(lane bigint, idx integer, attempt integer)
          left join app.claims c
            on c.lane = h.lane and c.idx = h.idx and c.attempt = h.attempt and c.session + 0 = _session
          left join app.lanes l on l.id = h.lane
         where c.lane is null or l.closed);
end;
$$;
