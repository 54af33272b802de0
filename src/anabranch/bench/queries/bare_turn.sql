-- Complete the tasks in hand and take the next ones.
select turn(%(done)s::bigint[], %(batch)s::integer);
