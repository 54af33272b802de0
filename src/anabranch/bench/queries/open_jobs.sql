-- How many jobs of a run have not ended, and how many did not complete.
select count(*) filter (where state not in ('completed', 'failed', 'cancelled')),
       count(*) filter (where state in ('failed', 'cancelled'))
  from app.jobs where id > %(after)s and scope = %(scope)s;
