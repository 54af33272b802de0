-- What keeps an open job from going on, in words, at most ten reasons: a gate, a time, a limit, a pause, a queue that no
-- worker serves, a handler that no worker has, an advance that could not be made, or a process that can't report.
select distinct t.reason
  from (select case when l.held like 'fault %%' then format('node %%s: its tasks can''t be claimed: %%s', l.node, substr(l.held, 7))
                    when m.paused then format('node %%s: the %%s %%s is paused', l.node, m.kind, m.name)
                                       || case when m.reason = '' then '' else ': ' || m.reason end
                    when l.held is not null then format('node %%s: held back by the limit of %%s', l.node, l.held)
                    when not exists (select from app.sessions s where s.dead_at is null and s.kind = 'worker'
                                        and not s.draining and l.queue = any(s.queues))
                    then format('node %%s: no worker serves the queue %%s', l.node, l.queue)
                    when l.handler not like 'anabranch.%%' and not app.has_handler(l.handler)
                    then format('node %%s: no worker has the handler %%s', l.node, l.handler) end as reason
          from app.lanes l left join app.limits m on m.kind || ' ' || m.name = l.held
         where l.job = %(job)s and not l.closed and (l.next_index < l.width or l.due_at is not null)
        union all
        select format('node %%s: waits', w.node)
               || case when n.kind = 'gate' then ' for a signal' else '' end
               || case when w.until is null then '' else to_char(w.until at time zone 'UTC', '" until "YYYY-MM-DD"T"HH24:MI:SS"Z"') end
          from app.waits w
          join app.jobs j on j.id = w.job
          join app.workflows f on f.hash = j.workflow_hash
          cross join lateral jsonb_to_recordset(f.definition -> 'nodes') as n(name text, kind text)
         where w.job = %(job)s and n.name = w.node
        union all
        select format('node %%s: %%s', r.node, r.trouble) from app.rights r where r.job = %(job)s and r.trouble is not null
        union all
        (select format('node %%s: %%s', l.node, s.trouble)
           from app.lanes l join app.claims c on c.lane = l.id join app.sessions s on s.id = c.session and s.dead_at is null
          where l.job = %(job)s and not l.closed and s.trouble is not null limit 100)) t
 where t.reason is not null order by 1 limit 10;
