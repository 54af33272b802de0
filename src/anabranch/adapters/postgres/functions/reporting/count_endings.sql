-- Count ended attempts on their lanes, which the caller holds. A lane whose last task ended, or that failed beyond what
-- it tolerates, is closed and gives its right (E6). One that can be
-- claimed again is placed like one that is opened. One with attempts that did not end their task for a fault is marked for an event.
-- Returns these rights.
create function app.count_endings(_session bigint, _endings app.ending[], _closed bigint[]) returns bigint[]
language plpgsql as $$
declare
    _lane record;
    _over boolean;
    _rights bigint[] := '{}';
begin
    for _lane in
        select e.lane as id, count(*) as ended, count(*) filter (where e.ended = 'failed') as failed,
               count(*) filter (where e.ended in ('completed', 'referenced', 'failed')) as final,
               bool_or(e.ended not in ('completed', 'referenced', 'failed') and e.body is not null) as repeats,
               min(e.due_at) filter (where e.ended not in ('completed', 'referenced', 'failed')) as due_at
          from unnest(_endings) e where e.lane <> all(_closed) group by e.lane order by e.lane
    loop
        update app.lanes l
           set running = l.running - _lane.ended, remaining = l.remaining - _lane.final,
               failed = l.failed + _lane.failed, due_at = least(l.due_at, _lane.due_at),
               reported = case when _lane.repeats then coalesce(l.reported, 0) else l.reported end,
               ripe = l.ripe or coalesce(_lane.due_at <= app.now(), false),
               freed_at = case when l.running >= l.max_running then app.now() else l.freed_at end,
               place = case when not l.claimable and (l.running >= l.max_running or _lane.due_at <= app.now())
                            then app.next_place(l.queue, l.priority, l.owner, l.root) else l.place end,
               closed = l.remaining - _lane.final = 0 or l.failed + _lane.failed > l.tolerated
         where l.id = _lane.id
        returning l.closed into _over;
        if _over then
            _rights := _rights || app.make_right(_lane.id, _session);
        end if;
    end loop;
    return array_remove(_rights, null);
end;
$$;
