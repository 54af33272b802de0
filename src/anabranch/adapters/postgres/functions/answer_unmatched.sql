-- Answer the reports that found no claim: `duplicate` where this session ended this attempt before, else `stale`,
-- noted on the attempt that was taken away (E3).
create function app.answer_unmatched(_session bigint, _reports jsonb, _answers text[]) returns text[]
language plpgsql as $$
begin
    update app.attempts a set stale_at = app.now()
      from jsonb_to_recordset(_reports) as g(lane bigint, idx integer, attempt integer)
     where a.lane = g.lane and a.idx = g.idx and a.attempt = g.attempt and a.session = _session
       and a.ended in ('lost', 'timed_out') and a.stale_at is null;
    return (
        select array_agg(coalesce(_answers[g.place], case when
                   exists (select from app.outcomes o
                            where o.lane = g.lane and o.idx = g.idx and o.attempt = g.attempt
                              and o.session = _session and o.outcome <> 'cancelled')
                   or exists (select from app.attempts a
                               where a.lane = g.lane and a.idx = g.idx and a.attempt = g.attempt
                                 and a.session = _session and a.ended in ('failed', 'crashed', 'handed_back'))
                   then 'duplicate' else 'stale' end) order by g.place)
          from rows from (jsonb_to_recordset(_reports) as (lane bigint, idx integer, attempt integer))
               with ordinality as g(lane, idx, attempt, place));
end;
$$;
