-- Jobs that have not ended and that nothing will move on (E1). It is always empty: each open job has a right to
-- advance, a lane with a task that can be claimed, runs, or is due, or waits for a signal or a time.
create view app.stuck_jobs as
    select j.job_id, j.state, j.created_at
      from app.jobs j
     where j.state in ('pending', 'running', 'waiting')
       and not exists (select from app.waits w where w.job = j.id)
       and not exists (select from app.rights r where r.job = j.id)
       and not exists (select from app.lanes l where l.job = j.id and not l.closed
                          and (l.next_index < l.width or l.running > 0
                               or exists (select from app.due d where d.lane = l.id)));
