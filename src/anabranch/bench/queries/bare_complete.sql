-- Complete tasks.
select complete(%(done)s::bigint[]);
