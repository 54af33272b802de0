-- How many jobs there are in each state.
select j.state, count(*) as jobs from app.jobs j group by j.state order by j.state;
