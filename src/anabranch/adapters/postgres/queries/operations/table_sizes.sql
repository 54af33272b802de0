-- The tables of schema app as the server's statistics know them: nothing of them is read.
select s.relname as name, s.n_live_tup as rows, s.n_dead_tup as dead_rows, pg_table_size(s.relid) as table_bytes,
       pg_indexes_size(s.relid) as index_bytes, greatest(s.last_vacuum, s.last_autovacuum) as vacuumed_at,
       greatest(s.last_analyze, s.last_autoanalyze) as analyzed_at
  from pg_stat_user_tables s where s.schemaname = 'app' order by s.relname;
