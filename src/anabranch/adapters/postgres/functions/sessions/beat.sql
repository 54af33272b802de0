-- Renew a session's lease and that of the rights it has in hand, note which of its tasks have started and what keeps it
-- from its work, and answer which tasks to stop: those that are no longer its own, and those whose lane is closed (E7).
-- Null: the sweeper gave its tasks to others and the process must begin a new session; a dead session never comes back
-- to life (E3).
-- _in_hand: [{lane, idx, attempt, token, started}, …]
create function app.beat(
    _session bigint, _in_hand jsonb, _rights bigint[] default null, _trouble text default null
) returns jsonb language plpgsql as $$
declare
    _lease interval;
begin
    update app.sessions s
       set beat_at = app.now(), trouble = _trouble,
           troubled_at = case when _trouble is not null then coalesce(s.troubled_at, app.now()) end
     where s.id = _session and s.dead_at is null
    returning s.lease into _lease;
    if not found then
        return null;
    end if;
    -- Claims and rights that another transaction holds are skipped: a heartbeat that waited for a lock could lose its lease.
    with begun as (
        select c.ctid as row
          from jsonb_to_recordset(_in_hand) as h(lane bigint, idx integer, attempt integer, token bigint, started boolean)
          join app.claims c on c.lane = h.lane and c.idx = h.idx and c.attempt = h.attempt and c.session + 0 = _session
           and c.token = h.token
         where h.started and c.started_at is null
           for update of c skip locked)
    update app.claims c set started_at = app.now() from begun b where c.ctid = b.row;
    if _rights <> '{}' then
        update app.rights r set taken_until = app.now() + _lease
         where r.id in (select x.id from app.rights x where x.id = any(_rights) and x.session = _session
                           for update skip locked);
    end if;
    return (
        select coalesce(jsonb_agg(jsonb_build_array(h.lane, h.idx, h.attempt, h.token)), '[]')
          from jsonb_to_recordset(_in_hand) as h(lane bigint, idx integer, attempt integer, token bigint)
          left join app.claims c
            on c.lane = h.lane and c.idx = h.idx and c.attempt = h.attempt and c.session + 0 = _session
           and c.token = h.token
          left join app.lanes l on l.id = h.lane
         where c.lane is null or l.closed);
end;
$$;
