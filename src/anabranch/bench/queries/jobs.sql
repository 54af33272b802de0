-- The jobs of a run that have ended: from the statement that created each to the one that ended it, by the database's
-- clock, and until the last was created.
select count(*), percentile_cont(0.5) within group (order by took), percentile_cont(0.99) within group (order by took),
       max(created)
  from (select extract(epoch from finished_at - created_at)::float as took,
               extract(epoch from created_at - min(created_at) over ())::float as created
          from app.jobs where id > %(after)s and scope = %(scope)s) jobs;
