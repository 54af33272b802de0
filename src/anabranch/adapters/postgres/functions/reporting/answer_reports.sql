-- Answer each report of a batch, in its order: by what it ended, or, when it found no claim, `duplicate` where this
-- session ended this attempt before, else `stale`, noted on the attempt that was taken away (E3).
create function app.answer_reports(_session bigint, _reports jsonb, _endings app.ending[], _closed bigint[])
returns text[] language plpgsql as $$
declare
    _given integer := jsonb_array_length(_reports);
    _ending app.ending;
    _answers text[] := array_fill(null::text, array[_given]);
begin
    if cardinality(_endings) = _given and _closed = '{}' then
        return array_fill('applied'::text, array[_given]);
    end if;
    foreach _ending in array coalesce(_endings, '{}') loop
        _answers[_ending.place] := case when _ending.lane = any(_closed) then 'stale' else 'applied' end;
    end loop;
    if array_position(_answers, null) is null then
        return _answers;
    end if;
    update app.attempts a set stale_at = app.now()
      from jsonb_to_recordset(_reports) as g(lane bigint, idx integer, attempt integer)
     where a.lane = g.lane and a.idx = g.idx and a.attempt = g.attempt and a.session = _session
       and a.ended in ('lost', 'timed_out') and a.stale_at is null;
    return (
        select array_agg(coalesce(_answers[g.place], case when
                   exists (select from app.outcomes o
                            where o.lane = g.lane and o.idx = g.idx and o.attempt = g.attempt
                              and o.session = _session and o.outcome <> 'cancelled' and not o.forced)
                   or exists (select from app.attempts a
                               where a.lane = g.lane and a.idx = g.idx and a.attempt = g.attempt
                                 and a.session = _session and a.ended in ('failed', 'crashed', 'handed_back'))
                   then 'duplicate' else 'stale' end) order by g.place)
          from rows from (jsonb_to_recordset(_reports) as (lane bigint, idx integer, attempt integer))
               with ordinality as g(lane, idx, attempt, place));
end;
$$;
