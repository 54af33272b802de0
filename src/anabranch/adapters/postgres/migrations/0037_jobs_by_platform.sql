-- Lists of a workflow's jobs go by platform now: an index less for each job that moves.
drop index app.jobs_workflow;
