-- Whether so many workers died of a task since it was marked as a suspect, with the one that died now: the attempts that
-- marked it are counted. A death is not charged to a task that its worker can't have begun, having others for all slots.
create function app.has_killed_workers(_claim app.claims, _most integer) returns boolean language sql stable as $$
    select (_claim.started_at is not null
            or (select count(*) from app.claims c where c.session = _claim.session)
               <= (select s.slots from app.sessions s where s.id = _claim.session))
       and (select count(*) from app.attempts a
             where a.lane = _claim.lane and a.idx = _claim.idx and a.ended = 'lost'
               and (a.started_at is not null or a.attempt >= 3) and a.error ->> 'code' = 'worker.died') >= _most;
$$;
