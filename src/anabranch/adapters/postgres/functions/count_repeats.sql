-- What an event tells of the attempts of some lanes that did not end their task, but for those that were given back
-- without a fault: how many there are, of how many tasks, by how they ended, and the error of the last. A worker says that an
-- attempt failed when it ended it at its time; here it is one that timed out, like those that the sweeper ends.
create function app.count_repeats(_lanes bigint[]) returns jsonb language sql stable as $$
    with repeated as (
        select a.lane, a.idx, a.finished_at, a.error,
               case when a.error ->> 'code' in ('task.timed_out', 'task.silent') then 'timed_out' else a.ended::text end as ended
          from app.attempts a where a.lane = any(_lanes) and a.error is not null),
    counted as (select r.ended, count(*) as attempts from repeated r group by r.ended),
    facts as (
        select (select count(*) from repeated) as attempts,
               (select count(*) from (select distinct r.lane, r.idx from repeated r) t) as tasks,
               (select r.error from repeated r order by r.finished_at desc, r.idx desc limit 1) as error)
    select jsonb_build_object('attempts', f.attempts, 'tasks', f.tasks)
           || (select coalesce(jsonb_object_agg(c.ended, c.attempts), '{}') from counted c)
           || jsonb_build_object(
                  'error', jsonb_build_object('message', left(f.error ->> 'message', 500), 'code', f.error -> 'code'),
                  'message', format('tried again: %s attempts, of %s tasks (%s); the last: %s', f.attempts, f.tasks,
                      (select string_agg(c.attempts || ' ' || replace(c.ended, '_', ' '), ', ' order by c.ended) from counted c),
                      left(f.error ->> 'message', 500)))
      from facts f;
$$;
