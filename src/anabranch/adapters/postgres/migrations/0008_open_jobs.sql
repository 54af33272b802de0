-- The jobs that have not ended are found and counted without reading those that have: health and metrics ask often.
create index jobs_open on app.jobs (id) include (state) where state in ('pending', 'running', 'waiting');
