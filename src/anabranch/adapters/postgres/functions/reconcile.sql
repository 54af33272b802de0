-- Give back the tasks that a session holds by the tables but not in hand: claims whose reply was lost. Without this
-- they would hang for ever, for their session lives. Answers how many, free of charge.
create function app.reconcile(_session bigint, _lanes bigint[], _indexes integer[]) returns integer
language sql as $$
    select app.release(coalesce(jsonb_agg(jsonb_build_object(
               'session', c.session, 'lane', c.lane, 'idx', c.idx, 'attempt', c.attempt, 'ended', 'lost')), '[]'))
      from app.claims c
     where c.session = _session
       and not exists (select from unnest(_lanes, _indexes) as h(lane, idx) where h.lane = c.lane and h.idx = c.idx);
$$;
