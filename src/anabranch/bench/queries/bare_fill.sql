-- Submit a fan-out: its tasks, and their number.
with filled as (insert into tasks (state) select 0 from generate_series(1, %(tasks)s) returning 1)
update counter set remaining = (select count(*) from filled);
