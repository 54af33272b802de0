-- E4: a task runs, runs as a job, is due or has ended: one of them, so that it has one result.
select j.job_id, concat('task ', t.idx, ' of node ', l.node, ' is ', t.first, ' and ', t.second) as what
  from (select c.lane, c.idx, 'running' as first, 'ended' as second from app.claims c join app.outcomes o using (lane, idx)
        union all
        select c.lane, c.idx, 'running', 'due' from app.claims c join app.due d using (lane, idx)
        union all
        select c.lane, c.idx, 'running', 'a job' from app.claims c join app.children k using (lane, idx)
        union all
        select d.lane, d.idx, 'due', 'ended' from app.due d join app.outcomes o using (lane, idx)
        union all
        select d.lane, d.idx, 'due', 'a job' from app.due d join app.children k using (lane, idx)
        union all
        select k.lane, k.idx, 'a job', 'ended' from app.children k join app.outcomes o using (lane, idx)) t
  join app.lanes l on l.id = t.lane
  join app.jobs j on j.id = l.job
