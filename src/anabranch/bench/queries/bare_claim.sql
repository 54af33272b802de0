-- Take tasks.
select claim(%(batch)s::integer);
