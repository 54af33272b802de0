-- Fail tasks that no worker took in the time their node allows (E8): the sweeper claims and ends them itself.
create function app.end_unserved(_session bigint, _batch integer) returns integer language plpgsql as $$
declare
    _lane app.lanes;
    _take integer;
    _ended integer := 0;
begin
    for _lane in
        select l.* from app.lanes l
         where l.claimable and l.next_index < l.width and l.queue_timeout is not null
           and l.opened_at + l.queue_timeout < app.now()
         order by l.id limit 10 for update skip locked
    loop
        _take := least(_batch, _lane.width - _lane.next_index);
        insert into app.claims (lane, idx, attempt, session, token, failures, crashes, first_at, claimed_at)
        select _lane.id, i, _lane.tried + 1, _session, 0, 0, 0, app.now(), app.now()
          from generate_series(_lane.next_index, _lane.next_index + _take - 1) i;
        update app.lanes l set next_index = l.next_index + _take, running = l.running + _take where l.id = _lane.id;
        _ended := _ended + app.release((
            select jsonb_agg(jsonb_build_object(
                       'session', _session, 'lane', _lane.id, 'idx', i, 'attempt', _lane.tried + 1, 'ended', 'failed',
                       'body', jsonb_build_object('code', 'task.queue_timeout', 'category', 'permanent', 'message',
                           format('no worker of queue %s took it in %s', _lane.queue, _lane.queue_timeout))))
              from generate_series(_lane.next_index, _lane.next_index + _take - 1) i));
    end loop;
    return _ended;
end;
$$;
