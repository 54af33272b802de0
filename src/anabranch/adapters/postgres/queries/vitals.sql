-- What health is judged by.
select (select count(*) from app.sessions where dead_at is null and kind = 'worker' and beat_at + lease > app.now()) as workers,
       (select count(*) from app.sessions where dead_at is null and kind = 'orchestrator' and beat_at + lease > app.now()) as orchestrators,
       (select extract(epoch from app.now() - ticked_at)::float from app.duties where name = 'sweeper') as sweeper_age_seconds,
       (select extract(epoch from every)::float from app.duties where name = 'sweeper') as sweeper_every_seconds,
       (select count(*) from app.rights where session is null) as untaken_rights,
       (select coalesce(jsonb_object_agg(queue, ready), '{}')
          from (select queue, sum(width - next_index) as ready from app.lanes where claimable group by queue) q) as queues;
