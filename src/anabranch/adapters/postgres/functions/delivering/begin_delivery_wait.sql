-- Ask to be woken by the doorbell: from now on announcements ring. Those before have been committed, so the caller looks once
-- more before it waits. False: one is being written now, or another process waits already; null: the session is dead. A commit
-- that rings waits for every other that does, so that nobody rings while the deliveries are watched anyway.
create function app.begin_delivery_wait(_session bigint) returns boolean language sql volatile as $$
    select pg_try_advisory_lock(hashtextextended('anabranch webhooks doorbell', 0))
      from app.sessions s where s.id = _session and s.dead_at is null;
$$;
