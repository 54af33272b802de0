-- Jobs that have not ended and that nothing moves on (E1); it is always empty. An open job has an advance right, waits for a
-- signal or a time, or has a lane with a task that is running (as a child job, too) or can be claimed: now, when it is due,
-- when others have ended, or when the limit that holds it back allows it. It is also stuck if for five minutes
--   * an advance could not be made,
--   * a claimed task has not begun,
--   * a process could not report what it held,
--   * workers returned a task again and again because something does not answer, or
--   * the result of a child job could not be taken.
create view app.stuck_jobs as
    select j.job_id, j.state, j.created_at, j.id
      from app.jobs j
     where j.state in ('pending', 'running', 'waiting')
       and (exists (select from app.rights r where r.job = j.id and r.troubled_at < app.now() - interval '5 min')
            or exists (
               select from app.lanes l join app.claims c on c.lane = l.id
                 join app.sessions s on s.id = c.session and s.dead_at is null
                where l.job = j.id and not l.closed and c.claimed_at < app.now() - interval '5 min'
                  and (s.troubled_at < app.now() - interval '5 min' or c.started_at is null))
            or exists (
               select from app.lanes l
                cross join lateral (select * from app.due x where x.lane = l.id order by x.due_at limit 20) d
                 join app.attempts a on a.lane = d.lane and a.idx = d.idx and a.attempt = d.attempt
                where l.job = j.id and not l.closed and a.ended = 'handed_back' and a.error is not null
                  and exists (
                     select from app.attempts b
                      where b.lane = d.lane and b.idx = d.idx and b.attempt between d.attempt - 100 and d.attempt
                        and b.ended = 'handed_back' and b.error is not null
                        and b.finished_at < app.now() - interval '5 min'))
            or exists (
               select from app.lanes l join app.children k on k.lane = l.id
                where l.job = j.id and not l.closed and k.ended_at < app.now() - interval '5 min')
            or (not exists (select from app.waits w where w.job = j.id)
                and not exists (select from app.rights r where r.job = j.id)
                and not exists (
                   select from app.lanes l
                    where l.job = j.id and not l.closed
                      and (exists (select from app.claims c where c.lane = l.id)
                           or exists (select from app.children k where k.lane = l.id)
                           or ((l.next_index < l.width or exists (select from app.due d where d.lane = l.id))
                               and (l.max_running is null or l.running < l.max_running)
                               and (l.held is null or l.held like 'breaker %'
                                    or exists (select from app.limits m where m.kind || ' ' || m.name = l.held)))))));
