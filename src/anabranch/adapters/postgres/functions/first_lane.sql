-- The next lane with fresh tasks to serve: by priority, then served longest ago, over all queues asked for.
create function app.first_lane(_queues text[]) returns app.lanes language sql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
    select head.* from unnest(_queues) q cross join lateral (
        select l.* from app.lanes l
         where l.queue = q and l.claimable order by l.priority, l.served_at, l.id limit 1) head
     order by head.priority, head.served_at, head.id limit 1;
$$;
