-- End tasks of these lanes that wait for an attempt that will never be, because their lane is closed (E13). Returns how
-- many.
create function app.tidy_due(_batch integer, _from bigint default 0, _to bigint default 9223372036854775807)
returns integer language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    with dead as (
        select d.lane, d.idx from app.due d
         cross join lateral (select from app.lanes x where x.id = d.lane and x.closed limit 1) l
         where d.lane between _from and _to limit _batch for update of d skip locked),
    removed as (
        delete from app.due d using dead where d.lane = dead.lane and d.idx = dead.idx returning d.*),
    ended as (
        insert into app.outcomes (lane, idx, outcome, attempt, session, failures, crashes, claimed_at, finished_at, forced)
        select r.lane, r.idx, 'cancelled', r.attempt, coalesce(a.session, 0), r.failures, r.crashes,
               coalesce(a.claimed_at, r.first_at), app.now(), true
          from removed r left join app.attempts a on a.lane = r.lane and a.idx = r.idx and a.attempt = r.attempt)
    select count(*)::integer from removed;
$$;
