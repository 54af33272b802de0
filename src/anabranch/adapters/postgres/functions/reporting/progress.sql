-- Note how far tasks of a session are, as their handlers said; an attempt that is not the current one changes nothing
-- (E3). Claims that another transaction holds are skipped: the heartbeat calls this, and one that waited for a lock could
-- lose its lease. Returns those noted, as [lane, idx], so that others can be sent again.
-- _said: [{lane, idx, attempt, token, progress}, …].
create function app.progress(_session bigint, _said jsonb) returns jsonb language plpgsql as $$
declare
    _noted jsonb;
begin
    with said as (
        select c.ctid as row, h.progress
          from jsonb_to_recordset(_said) as h(lane bigint, idx integer, attempt integer, token bigint, progress jsonb)
          join app.claims c on c.lane = h.lane and c.idx = h.idx and c.attempt = h.attempt and c.session + 0 = _session
           and c.token = h.token
           for update of c skip locked),
    noted as (
        update app.claims c
           set progress = s.progress, progress_at = app.now(), started_at = coalesce(c.started_at, app.now())
          from said s where c.ctid = s.row
        returning c.lane, c.idx)
    select coalesce(jsonb_agg(jsonb_build_array(n.lane, n.idx)), '[]') into _noted from noted n;
    return _noted;
end;
$$;
