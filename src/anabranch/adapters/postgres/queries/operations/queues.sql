-- The queues that have open work, are served or are limited: how much waits and runs, and how many workers serve each.
select named.queue as name, coalesce(l.ready, 0) as ready, coalesce(l.running, 0) as running, coalesce(l.held, 0) as held,
       (select count(*) from app.sessions s
         where s.dead_at is null and s.kind = 'worker' and not s.draining and named.queue = any(s.queues)) as workers,
       m.most, coalesce(m.paused, false) as paused, coalesce(m.reason, '') as reason
  from (select queue from app.lanes where not closed
        union select unnest(queues) from app.sessions where dead_at is null
        union select name from app.limits where kind = 'queue') named
  left join (select x.queue, sum(x.width - x.next_index) as ready, sum(x.running) as running,
                    count(*) filter (where x.held is not null) as held
               from app.lanes x where not x.closed group by x.queue) l on l.queue = named.queue
  left join app.limits m on m.kind = 'queue' and m.name = named.queue
 where named.queue not like 'plan:%%' or l.queue is not null or m.name is not null
 order by named.queue;
