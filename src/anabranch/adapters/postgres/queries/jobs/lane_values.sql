-- What the parameters of some lanes' tasks are filled in from, where they are.
select l.id as lane, l.values, j.job_id, j.workflow_hash, j.parameters as inputs
  from app.lanes l join app.jobs j on j.id = l.job where l.id = any(%(lanes)s) and l.values is not null;
