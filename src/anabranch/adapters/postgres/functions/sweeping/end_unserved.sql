-- Fail tasks of these lanes that no worker took in the time their node allows (E8): the sweeper claims and ends them
-- itself. The time counts while there is something to take: from when the lane was last served, opened or let go by its
-- window or a limit. What a limit leaves no room for is held back here as a claim would, whether or not a worker asks.
create function app.end_unserved(
    _session bigint, _batch integer, _from bigint default 0, _to bigint default 9223372036854775807
) returns integer language plpgsql as $$
declare
    _lane app.lanes;
    _take integer;
    _ended integer := 0;
    _limited boolean := exists (select from app.limits);
begin
    for _lane in
        select l.* from app.lanes l
         where l.claimable and l.next_index < l.width and l.queue_timeout is not null and l.id between _from and _to
           and greatest(l.opened_at, l.served_at, l.freed_at) + least(l.queue_timeout, app.seconds(1e9)) < app.now()
         order by l.id limit 10 for update skip locked
    loop
        continue when _limited and app.find_room(_lane) = 0;
        _take := least(_batch, _lane.width - _lane.next_index);
        insert into app.claims (lane, idx, attempt, session, token, failures, crashes, first_at, claimed_at)
        select _lane.id, i, _lane.tried + 1, _session, 0, 0, 0, app.now(), app.now()
          from generate_series(_lane.next_index, _lane.next_index + _take - 1) i;
        update app.lanes l set next_index = l.next_index + _take, running = l.running + _take where l.id = _lane.id;
        _ended := _ended + app.release((
            select jsonb_agg(jsonb_build_object(
                       'session', _session, 'lane', _lane.id, 'idx', i, 'attempt', _lane.tried + 1, 'token', 0,
                       'ended', 'failed',
                       'body', jsonb_build_object('code', 'task.queue_timeout', 'category', 'permanent', 'message',
                           format('no worker of queue %s took it in %s', _lane.queue, _lane.queue_timeout))))
              from generate_series(_lane.next_index, _lane.next_index + _take - 1) i));
    end loop;
    return _ended;
end;
$$;
