-- How much the server has written to its log so far, in bytes.
select (pg_current_wal_insert_lsn() - '0/0')::bigint;
