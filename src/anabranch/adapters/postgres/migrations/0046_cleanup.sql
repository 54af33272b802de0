alter table app.jobs add column ending jsonb;
