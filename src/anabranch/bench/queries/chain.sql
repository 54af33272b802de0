-- The hops of a chain that has ended: from one handler's return to the next one's entry, on the handlers' own clock.
select count(*), percentile_cont(0.5) within group (order by hop), percentile_cont(0.99) within group (order by hop), max(hop)
  from (select o.result::float - lag(o.result::float) over (order by n.position) as hop
          from app.jobs j
          join app.nodes n on n.job = j.id
          join app.lanes l on l.job = j.id and l.node = n.name
          join app.outcomes o on o.lane = l.id and o.outcome = 'completed'
         where j.job_id = %(job_id)s) hops
 where hop is not null;
