-- Every task with its state: waiting in its lane, running (as a child job, too), due again, or ended. Internal tasks are
-- not among them, nor what a retry left behind. What is asked for by its job is found without a look at others.
create view app.tasks as
    select t.job_id, t.task_id, t.node, t.generation, t.place as position, t.index, t.state, t.handler, t.parameters, t.attempt,
           t.failures, t.crashes, t.session, t.claimed_at, t.started_at, t.finished_at, t.due_at, t.result, t.error, t.lane,
           t.job
      from app.jobs j
     cross join lateral app.list_tasks(j.id, 0, 0, null, null, 2147483647) t;
