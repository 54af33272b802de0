-- The events of a job in order, after one of them.
select e.* from app.events e where e.job = %(job)s and e.seq > %(after)s order by e.seq limit %(limit)s;
