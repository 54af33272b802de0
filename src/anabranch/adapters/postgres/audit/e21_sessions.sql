-- E21: a claim is of a session that is known; what a dead one held is given back soon while a sweeper is at work.
select j.job_id, concat('task ', c.idx, ' of node ', l.node, ' is held by session ', c.session, ', which ',
                        coalesce('died at ' || s.dead_at, 'does not exist')) as what
  from app.claims c
  left join app.sessions s on s.id = c.session
 cross join lateral (select x.* from app.lanes x where x.id = c.lane limit 1) l
  join app.jobs j on j.id = l.job
 where s.id is null
    or (s.dead_at < app.now() - %(grace)s::interval
        and exists (select from app.duties d
                     where d.name = 'sweeper' and d.unbroken_since < app.now() - %(grace)s::interval
                       and d.ticked_at > app.now() - %(grace)s::interval))
