-- Claim tasks of a lane whose next attempt is due, those first that waited longest, and note when the next one is.
-- The caller holds the lane and counts what runs. Returns their indexes.
create function app.take_due(_lane bigint, _session bigint, _token bigint, _limit integer) returns integer[] language plpgsql as $$
declare
    _rows tid[];
    _indexes integer[];
    _next timestamptz;
begin
    with found as (
        select d.ctid as row, d.* from app.due d where d.lane = _lane and d.due_at <= app.now()
         order by d.due_at limit _limit),
    taken as (
        insert into app.claims (lane, idx, attempt, session, token, failures, crashes, first_at, claimed_at)
        select f.lane, f.idx, f.attempt + 1, _session, _token, f.failures, f.crashes, f.first_at, app.now() from found f)
    select array_agg(f.row), array_agg(f.idx) into _rows, _indexes from found f;
    perform app.remove_due(_rows);
    select d.due_at into _next from app.due d where d.lane = _lane order by d.due_at limit 1;
    update app.lanes l set due_at = _next, ripe = coalesce(_next <= app.now(), false) where l.id = _lane;
    return coalesce(_indexes, '{}');
end;
$$;
