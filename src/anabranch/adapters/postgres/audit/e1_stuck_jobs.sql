-- E1: something will move on every job that has not ended. A lane whose limit was just taken away is let go by the sweeper.
select s.job_id, concat('it is ', s.state, ', and nothing will move it on') as what
  from app.stuck_jobs s
 where not exists (
       select from app.lanes l
        where l.job = s.id and not l.closed and l.held is not null
          and not exists (select from app.limits m where m.kind || ' ' || m.name = l.held))
