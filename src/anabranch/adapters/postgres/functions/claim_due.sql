-- Take tasks whose next attempt is due, as many as their lanes' windows admit, from lanes whose turn comes before that
-- of _head, the first lane with fresh tasks (E22).
create function app.claim_due(_session bigint, _queues text[], _limit integer, _head app.lanes)
returns table (lane bigint, idx integer) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    return query
    with ready as (
        select d.lane, d.idx, l.max_running - l.running as room
          from app.due d join app.lanes l on l.id = d.lane
         where d.queue = any(_queues) and d.due_at <= app.now() and not l.closed
           and (l.max_running is null or l.running < l.max_running)
           and (_head.id is null or (l.priority, l.served_at) <= (_head.priority, _head.served_at))
         order by l.priority, l.served_at, d.due_at limit _limit for update of d, l skip locked),
    fitting as (
        select r.lane, r.idx
          from (select *, row_number() over (partition by ready.lane order by ready.idx) as place from ready) r
         where r.room is null or r.place <= r.room),
    taken as (
        delete from app.due d using fitting f where d.lane = f.lane and d.idx = f.idx returning d.*),
    counted as (
        update app.lanes l set running = l.running + t.tasks, served_at = app.now()
          from (select taken.lane, count(*) as tasks from taken group by taken.lane) t where l.id = t.lane)
    insert into app.claims as c (lane, idx, attempt, session, failures, crashes, first_at, claimed_at)
    select t.lane, t.idx, t.attempt + 1, _session, t.failures, t.crashes, t.first_at, app.now() from taken t
    returning c.lane, c.idx;
end;
$$;
