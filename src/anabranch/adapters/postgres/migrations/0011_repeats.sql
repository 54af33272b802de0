-- A lane knows whether its tasks were tried again, and how much of that the job's events tell.
alter table app.lanes add column told integer;

create index lanes_untold on app.lanes (id) where told = 0 and not closed;
