-- Fail tasks of these lanes that no worker took in the time their node allows (E8), new ones and those whose next attempt
-- is due: the sweeper claims and ends them itself. The time counts while there is something to take: from when the lane
-- was last served, opened or let go by its window or a limit, or its first task was due. What a limit leaves no room for is
-- held back here, and what is due made claimable, as by a claim, whether or not a worker asks.
create function app.end_unserved(
    _session bigint, _batch integer, _from bigint default 0, _to bigint default 9223372036854775807
) returns integer language plpgsql as $$
declare
    _lane app.lanes;
    _take integer;
    _due integer;
    _ended integer := 0;
    _limited boolean := exists (select from app.limits);
begin
    lock table app.claims in row exclusive mode;
    update app.lanes l set ripe = true,
           place = case when l.claimable then l.place else app.next_place(l.queue, l.priority, l.owner, l.root) end
     where l.id = any(array(
        select x.id from app.lanes x
         where not x.ripe and not x.closed and x.due_at <= app.now() and x.queue_timeout is not null
           and x.held is null and (x.max_running is null or x.running < x.max_running) and x.id between _from and _to
         order by x.due_at limit _batch for update skip locked));
    for _lane in
        select l.* from app.lanes l
         where l.claimable and l.queue_timeout is not null and l.id between _from and _to
           and greatest(l.opened_at, l.served_at, l.freed_at, case when l.next_index = l.width then l.due_at end)
               + least(l.queue_timeout, app.seconds(1e9)) < app.now()
         order by l.id limit 10 for update skip locked
    loop
        continue when _limited and app.find_limit_room(_lane) = 0 or app.is_broken(_lane.queue, _lane.handler);
        _take := least(_batch, _lane.width - _lane.next_index);
        insert into app.claims (lane, idx, attempt, session, token, failures, crashes, first_at, claimed_at)
        select _lane.id, i, _lane.tried + 1, _session, 0, 0, 0, app.now(), app.now()
          from generate_series(_lane.next_index, _lane.next_index + _take - 1) i;
        _due := case when _lane.ripe then cardinality(app.take_due(_lane.id, _session, 0, _batch)) else 0 end;
        update app.lanes l set next_index = l.next_index + _take, running = l.running + _take + _due where l.id = _lane.id;
        _ended := _ended + app.release((
            select coalesce(jsonb_agg(jsonb_build_object(
                       'session', _session, 'lane', _lane.id, 'idx', c.idx, 'attempt', c.attempt, 'token', 0,
                       'ended', 'failed',
                       'body', jsonb_build_object('code', 'task.queue_timeout', 'category', 'permanent', 'message',
                           format('no worker of queue %s took it in %s', _lane.queue, _lane.queue_timeout)))), '[]')
              from app.claims c where c.lane = _lane.id and c.session = _session and c.token = 0));
    end loop;
    return _ended;
end;
$$;
