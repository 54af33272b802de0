-- Outside a transaction: others write meanwhile. What lists say of jobs that were retried, and tasks that are due again
-- and may wait for a worker only so long.

create index concurrently if not exists events_retried on app.events (job, seq) where kind = 'job.retried';
create index concurrently if not exists lanes_due_timeout on app.lanes (due_at)
    where not ripe and not closed and queue_timeout is not null;
