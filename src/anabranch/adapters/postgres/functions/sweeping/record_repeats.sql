-- Add one event for each open lane whose tasks are tried again: a reader of the job's events sees crashes and failures
-- within a sweep, and ten thousand of them are one event. The node's end has the sum (app.set_node).
-- Reports can't do it: they never lock the job's row. Jobs and lanes are locked, and so read as they are now, whatever
-- ended since this began; none is waited for: what others hold is left to the next sweep. Returns how many.
create function app.record_repeats(_batch integer, _from bigint default 0, _to bigint default 9223372036854775807)
returns integer language plpgsql as $$
declare
    _lane record;
    _repeats jsonb;
    _recorded integer := 0;
begin
    perform app.assert_read_committed();
    for _lane in
        select l.id, l.job, l.node from app.lanes l join app.jobs j on j.id = l.job
         where l.reported = 0 and not l.closed and l.id between _from and _to and j.state in ('pending', 'running', 'waiting')
         order by l.id limit _batch for no key update of j, l skip locked
    loop
        _repeats := app.count_repeats(array[_lane.id]);
        update app.lanes set reported = (_repeats ->> 'attempts')::integer where id = _lane.id;
        perform app.add_event(_lane.job, 'tasks.repeated', _lane.node, _repeats);
        _recorded := _recorded + 1;
    end loop;
    return _recorded;
end;
$$;
