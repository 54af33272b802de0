-- How many jobs of a run have not ended, how many did not complete, and why one of them did not.
select count(*) filter (where state not in ('completed', 'failed', 'cancelled')),
       count(*) filter (where state in ('failed', 'cancelled')),
       min(error ->> 'message')
  from app.jobs where id > %(after)s and scope = %(scope)s;
