-- What runs for a limit is summed up from its changes. What runs now is counted while nothing begins or ends; the triggers
-- that note changes are made in the same transaction, with the functions.

lock table app.claims, app.children in share row exclusive mode;

-- How many more tasks of a limit run, or fewer: each begin and end is a row, so that no two wait for each other; a claim that
-- holds the limit's row puts a sum in the place of many. Xid: the transaction that wrote it. Upto, open: the sum has seen
-- all transactions below the first, without the second.
create table app.limit_changes (
    kind text not null,
    name text not null,
    xid xid8 not null default pg_current_xact_id(),
    change integer not null,
    upto xid8,
    open xid8[]
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index limit_changes_of on app.limit_changes (kind, name, xid);

insert into app.limit_changes (kind, name, change, upto, open)
select m.kind, m.name,
       (select count(*) from (select c.lane, true as claimed from app.claims c
                              union all
                              select k.lane, false from app.children k) t
          join app.lanes l on l.id = t.lane
          join app.jobs j on j.id = l.job
         where (t.claimed or m.kind in ('workflow', 'key'))
           and m.name = case m.kind when 'queue' then l.queue when 'handler' then l.handler
                                    when 'key' then l.limit_key else j.workflow end),
       pg_snapshot_xmax(s), array(select pg_snapshot_xip(s)) || pg_current_xact_id()
  from app.limits m, pg_current_snapshot() s where m.most is not null;
