-- The size of the database, its connections, and the transaction that has been open longest: what it may have seen, no
-- vacuum removes. Sessions of other users are counted, and their transactions not seen, unless the user may read them.
select pg_database_size(current_database()) as database_bytes,
       (select count(*) from pg_stat_activity a where a.datname = current_database()) as connections,
       current_setting('max_connections')::integer as max_connections,
       (select row_to_json(o) from (
            select extract(epoch from statement_timestamp() - a.xact_start)::float as seconds,
                   a.application_name as process, a.state
              from pg_stat_activity a
             where a.datname = current_database() and a.pid <> pg_backend_pid() and a.xact_start is not null
             order by a.xact_start limit 1) o) as oldest_transaction;
