-- E1: a node that runs has an open lane, a right to advance it, or a wait.
select j.job_id, concat('node ', n.name, ' runs, and has neither an open lane nor a right nor a wait') as what
  from app.jobs j
  join app.nodes n on n.job = j.id and n.state = 'running'
 where j.state in ('pending', 'running', 'waiting')
   and not exists (select from app.lanes l where l.job = j.id and l.node = n.name and not l.closed)
   and not exists (select from app.rights r where r.job = j.id and r.node = n.name)
   and not exists (select from app.waits w where w.job = j.id and w.node = n.name)
