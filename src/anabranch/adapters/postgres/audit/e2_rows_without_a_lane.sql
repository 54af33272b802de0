-- E2: rows of tasks belong to a lane; those of a purged job's, which still are to be cleared, to its remains.
select null::text as job_id, concat(t.kind, ' of lane ', t.lane, ', which does not exist') as what
  from (select distinct 'a claim' as kind, c.lane from app.claims c
         where not exists (select from app.lanes l where l.id = c.lane)
        union all
        select distinct 'a task that is due', d.lane from app.due d
         where not exists (select from app.lanes l where l.id = d.lane)
        union all
        select distinct 'a child job', k.lane from app.children k
         where not exists (select from app.lanes l where l.id = k.lane)
        union all
        select 'rows', h.lane
          from (select distinct lane from app.outcomes union select distinct lane from app.attempts
                union select distinct lane from app.items union select distinct lane from app.traces
                union select distinct lane from app.checkpoints) h
         where not exists (select from app.lanes l where l.id = h.lane)
           and not exists (select from app.remains r where r.lane = h.lane)) t
