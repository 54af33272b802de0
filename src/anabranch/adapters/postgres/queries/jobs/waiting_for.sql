-- What keeps an open job from going on, in words, at most ten reasons: a limit, a queue that nobody serves, a handler that
-- no worker has, an advance that could not be made, or a process that can't report.
select distinct t.reason
  from (select case when l.held like 'fault %%' then format('node %%s: its tasks can''t be claimed: %%s', l.node, substr(l.held, 7))
                    when l.held is not null then format('node %%s: held back by the limit of %%s', l.node, l.held)
                    when not exists (select from app.sessions s where s.dead_at is null and s.kind = 'worker'
                                        and not s.draining and l.queue = any(s.queues))
                    then format('node %%s: no worker serves the queue %%s', l.node, l.queue)
                    when l.handler not like 'anabranch.%%' and not app.has_handler(l.handler)
                    then format('node %%s: no worker has the handler %%s', l.node, l.handler) end as reason
          from app.lanes l
         where l.job = %(job)s and not l.closed and (l.next_index < l.width or l.due_at is not null)
        union all
        select format('node %%s: %%s', r.node, r.trouble) from app.rights r where r.job = %(job)s and r.trouble is not null
        union all
        (select format('node %%s: %%s', l.node, s.trouble)
           from app.lanes l join app.claims c on c.lane = l.id join app.sessions s on s.id = c.session and s.dead_at is null
          where l.job = %(job)s and not l.closed and s.trouble is not null limit 100)) t
 where t.reason is not null limit 10;
