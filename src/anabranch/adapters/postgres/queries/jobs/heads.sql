-- Where some jobs stand, and the number of each one's last event: what a look at every watched job reads.
select j.id as job, j.state, j.last_event from app.jobs j where j.id = any(%(jobs)s);
