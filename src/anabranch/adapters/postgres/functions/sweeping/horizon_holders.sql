-- What keeps vacuum from removing dead rows of this database: transactions, those that were prepared, standbys and
-- replication slots, each with the oldest transaction that it needs, and for how long where the server knows.
create function app.horizon_holders() returns table (holder text, xmin text, seconds float)
language sql stable security invoker as $$
    select concat('process ', a.pid, ' (', coalesce(nullif(a.application_name, ''), a.backend_type), ')') as holder,
           a.backend_xmin::text as xmin, extract(epoch from clock_timestamp() - a.xact_start)::float as seconds
      from pg_catalog.pg_stat_activity a
     where a.backend_xmin is not null and a.pid <> pg_catalog.pg_backend_pid() and a.backend_type <> 'autovacuum worker'
       and (a.datname = current_database() or a.backend_type = 'walsender')
    union all
    select concat('prepared transaction ', p.gid), p.transaction::text, extract(epoch from clock_timestamp() - p.prepared)::float
      from pg_catalog.pg_prepared_xacts p where p.database = current_database()
    union all
    select concat('replication slot ', s.slot_name), s.xmin::text, null
      from pg_catalog.pg_replication_slots s where s.xmin is not null;
$$;
