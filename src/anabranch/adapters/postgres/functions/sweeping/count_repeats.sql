-- What an event says of the attempts of some lanes that did not end their task, but for those that were given back
-- without a fault: how many there are, of how many tasks, by how they ended, and the error of the last. A worker says that an
-- attempt failed when it ended it at its time; here it is one that timed out, like those that the sweeper ends.
-- The caller holds the job's row, and there may be very many: they are read once, in the order of their key, and none is
-- kept; the last is looked for from the end, where it mostly is.
create function app.count_repeats(_lanes bigint[]) returns jsonb language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
    with counted as (
        select coalesce(sum(t.attempts), 0)::bigint as attempts, count(*) as tasks, max(t.finished_at) as finished_at,
               sum(t.crashed) as crashed, sum(t.failed) as failed, sum(t.handed_back) as handed_back, sum(t.lost) as lost,
               sum(t.timed_out) as timed_out
          from unnest(_lanes) l cross join lateral (
               select count(*) as attempts, max(r.finished_at) as finished_at,
                      count(*) filter (where r.ended = 'crashed') as crashed,
                      count(*) filter (where r.ended = 'failed') as failed,
                      count(*) filter (where r.ended = 'handed_back') as handed_back,
                      count(*) filter (where r.ended = 'lost') as lost,
                      count(*) filter (where r.ended = 'timed_out') as timed_out
                 from (select a.idx, a.finished_at,
                              case when a.error ->> 'code' in ('task.timed_out', 'task.silent') then 'timed_out' else a.ended end as ended
                         from app.attempts a where a.lane = l and a.error is not null order by a.idx offset 0) r
                group by r.idx) t),
    kinds as (
        select k.ended, k.attempts from counted c cross join lateral (
               values ('crashed', c.crashed), ('failed', c.failed), ('handed_back', c.handed_back), ('lost', c.lost),
                      ('timed_out', c.timed_out)) as k(ended, attempts)
         where k.attempts > 0),
    facts as (
        select c.attempts, c.tasks, (
               select x.error from unnest(_lanes) l cross join lateral (
                      select a.error from app.attempts a
                       where a.lane = l and a.finished_at = c.finished_at and a.error is not null
                       order by a.idx desc, a.attempt desc limit 1) x
                limit 1) as error
          from counted c)
    select jsonb_build_object('attempts', f.attempts, 'tasks', f.tasks)
           || (select coalesce(jsonb_object_agg(k.ended, k.attempts), '{}') from kinds k)
           || jsonb_build_object(
                  'error', jsonb_build_object('message', left(f.error ->> 'message', 500), 'code', f.error -> 'code'),
                  'message', format('tried again: %s attempt%s, of %s task%s (%s); the last: %s',
                      f.attempts, case when f.attempts <> 1 then 's' end, f.tasks, case when f.tasks <> 1 then 's' end,
                      (select string_agg(k.attempts || ' ' || replace(k.ended, '_', ' '), ', ' order by k.ended) from kinds k),
                      left(f.error ->> 'message', 500)))
      from facts f;
$$;
