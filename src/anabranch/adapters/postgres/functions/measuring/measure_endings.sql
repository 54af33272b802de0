-- Count how long attempts took that a batch of reports ends, from the start of the handler, and how long tasks waited for
-- their first one, from the opening of their node: a row for each bucket that is met, so that a large batch of equal tasks
-- adds few. Planners and aggregators are no tasks of anybody. An attempt whose handler never started counts for neither:
-- the task waits on, for the first attempt that starts.
create function app.measure_endings(_endings app.ending[], _closed bigint[]) returns void language plpgsql as $$
declare
    _now timestamptz := app.now();
    _lanes bigint[];
    _opened timestamptz[];
    _mixed boolean;
begin
    select array_agg(l.id), array_agg(l.opened_at), bool_or(l.itemized) into _lanes, _opened, _mixed
      from (select distinct e.lane from unnest(_endings) e) d
     cross join lateral (select x.* from app.lanes x where x.id = d.lane limit 1) l
     where l.purpose = 'work';
    if _lanes is null then
        return;
    end if;
    with ended as materialized (
        select array_position(_lanes, e.lane) as place, e.idx, e.started_at as began_at,
               e.claimed_at = e.first_at or not exists (
                   select from app.attempts a
                    where a.lane = e.lane and a.idx = e.idx and a.attempt < e.attempt and a.started_at is not null) as is_first,
               case when e.lane = any(_closed) then 'cancelled' when e.ended in ('completed', 'referenced') then 'completed'
                    when e.ended = 'failed' then 'failed' else 'repeated' end as status
          from unnest(_endings) e where e.started_at is not null and e.ended <> 'missing'),
    took as (
        select e.place, case when _mixed then
                   (select i.handler from app.items i where i.lane = _lanes[e.place] and i.idx = e.idx) end as handler,
               e.status, greatest(extract(epoch from _now - e.began_at)::double precision, 0) as seconds
          from ended e where e.place is not null),
    waited as (
        select e.place, greatest(extract(epoch from e.began_at - _opened[e.place])::double precision, 0) as seconds
          from ended e where e.place is not null and e.is_first),
    tasks as (
        select t.place, t.handler, t.status, app.find_bucket(t.seconds) as bucket, count(*) as entries, sum(t.seconds) as seconds
          from took t group by 1, 2, 3, 4),
    waits as (
        select w.place, app.find_bucket(w.seconds) as bucket, count(*) as entries, sum(w.seconds) as seconds
          from waited w group by 1, 2)
    insert into app.durations (kind, name, detail, bucket, entries, seconds)
    select 'task'::app.duration_kind, coalesce(t.handler, l.handler), t.status, t.bucket, t.entries, t.seconds
      from tasks t cross join lateral (select x.handler from app.lanes x where x.id = _lanes[t.place] limit 1) l
    union all
    select 'wait', l.queue, '', w.bucket, w.entries, w.seconds
      from waits w cross join lateral (select x.queue from app.lanes x where x.id = _lanes[w.place] limit 1) l;
end;
$$;
