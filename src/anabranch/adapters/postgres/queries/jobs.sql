-- Jobs, the newest first, after a cursor.
select j.* from app.jobs j
 where (%(before)s::bigint is null or j.id < %(before)s)
   and (%(state)s::app.job_state is null or j.state = %(state)s)
   and (%(workflow)s::text is null or j.workflow = %(workflow)s)
 order by j.id desc limit %(limit)s;
