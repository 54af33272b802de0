-- Renew a session's lease, note which of its tasks have started and how far they are, and answer which to stop: those
-- that are no longer its own, and those whose lane is closed (E7). Null: the sweeper gave its tasks to others and the
-- process must begin a new session; a dead session never comes back to life (E3).
-- _in_hand: [{lane, idx, attempt, started, progress}, …].
create function app.beat(_session bigint, _in_hand jsonb) returns jsonb language plpgsql as $$
begin
    update app.sessions set beat_at = app.now() where id = _session and dead_at is null;
    if not found then
        return null;
    end if;
    -- Claims that a report is at are passed over: a heart that waited for it would cost its session the lease.
    with said as (
        select c.ctid as row, h.started, h.progress
          from jsonb_to_recordset(_in_hand)
               as h(lane bigint, idx integer, attempt integer, started boolean, progress jsonb)
          join app.claims c on c.lane = h.lane and c.idx = h.idx and c.attempt = h.attempt and c.session + 0 = _session
         where h.progress is not null or (h.started and c.started_at is null)
           for update of c skip locked)
    update app.claims c
       set started_at = coalesce(c.started_at, case when s.started then app.now() end),
           progress = coalesce(s.progress, c.progress),
           progress_at = case when s.progress is not null then app.now() else c.progress_at end
      from said s where c.ctid = s.row;
    return (
        select coalesce(jsonb_agg(jsonb_build_array(h.lane, h.idx, h.attempt)), '[]')
          from jsonb_to_recordset(_in_hand) as h(lane bigint, idx integer, attempt integer)
          left join app.claims c
            on c.lane = h.lane and c.idx = h.idx and c.attempt = h.attempt and c.session + 0 = _session
          left join app.lanes l on l.id = h.lane
         where c.lane is null or l.closed);
end;
$$;
