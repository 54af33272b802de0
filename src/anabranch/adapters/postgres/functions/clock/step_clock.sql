-- Move what was scheduled by the server's clock with a step of it, so that timers, timeouts and delays last as long as they
-- were to; dates that were declared stay. _shifted: as app.read_clock answered; _elapsed: how long ago the clock was seen
-- before the step; null where nobody saw it, and only what is ahead of the clock is moved. All sessions have a lease from
-- now on. Claims are locked by key, then lanes by id, as by reports; what others hold of the rest is being ended, and a
-- session that they hold beats. False: another noted the step, or there was none: others beat meanwhile, and it was this
-- process that slept.
create function app.step_clock(_session bigint, _step interval, _shifted interval, _elapsed interval)
returns boolean language plpgsql as $$
declare
    _nodes tid[];
    _since timestamptz := coalesce(app.now() - _elapsed - interval '1 s', '-infinity');
begin
    perform app.assert_read_committed();
    lock table app.claims, app.children in row exclusive mode;
    insert into app.clock (shifted, step, stepped_at) values ('0', '0', app.now()) on conflict do nothing;
    perform from app.clock c where c.shifted = _shifted for update;
    if not found or (_step > '0' and exists (
            select from app.sessions s
             where s.id <> _session and s.beat_at > _since - _step + 2 * _elapsed + interval '2 s' and s.beat_at < _since)) then
        return false;
    end if;
    perform from app.claims c order by c.lane, c.idx for update;
    perform from app.lanes l where not l.closed order by l.id for update;
    update app.claims c
       set first_at = app.move_time(c.first_at, _step, _since), claimed_at = app.move_time(c.claimed_at, _step, _since),
           started_at = app.move_time(c.started_at, _step, _since);
    update app.due d
       set first_at = app.move_time(d.first_at, _step, _since),
           due_at = d.due_at + (app.move_time(w.written_at, _step, _since) - w.written_at),
           expires_at = d.expires_at + (app.move_time(d.first_at, _step, _since) - d.first_at)
      from (select x.lane, x.idx, coalesce(a.finished_at, l.opened_at) as written_at
              from app.due x join app.lanes l on l.id = x.lane and not l.closed
              left join app.attempts a on a.lane = x.lane and a.idx = x.idx and a.attempt = x.attempt) w
     where w.lane = d.lane and w.idx = d.idx;
    update app.attempts a set finished_at = app.move_time(a.finished_at, _step, _since)
      from app.due d where a.lane = d.lane and a.idx = d.idx and a.attempt = d.attempt;
    update app.lanes l
       set opened_at = app.move_time(l.opened_at, _step, _since), served_at = app.move_time(l.served_at, _step, _since),
           freed_at = app.move_time(l.freed_at, _step, _since),
           due_at = (select min(d.due_at) from app.due d where d.lane = l.id)
     where not l.closed;
    _nodes := array(
        select n.ctid from app.waits w join app.nodes n on n.job = w.job and n.name = w.node
         where w.until is not null for no key update skip locked);
    update app.waits w set until = w.until + (app.move_time(n.opened_at, _step, _since) - n.opened_at)
      from app.nodes n
     where n.ctid = any(_nodes) and n.job = w.job and n.name = w.node and not w.is_date;
    update app.nodes n set opened_at = app.move_time(n.opened_at, _step, _since) where n.ctid = any(_nodes);
    update app.children k set taken_until = null
     where k.job = any(array(
        select x.job from app.children x where x.taken_until is not null for update skip locked));
    update app.rights r
       set made_at = app.move_time(r.made_at, _step, _since),
           taken_until = case when r.taken_until is not null then
               app.now() + coalesce((select s.lease from app.sessions s where s.id = r.session), '0') end
     where r.id = any(array(select x.id from app.rights x for update skip locked));
    update app.duties d
       set ticked_at = app.move_time(d.ticked_at, _step, _since), unbroken_since = app.now();
    update app.sessions s set beat_at = app.now()
     where s.id = any(array(select x.id from app.sessions x where x.dead_at is null for update skip locked));
    update app.clock c
       set shifted = c.shifted + case when _elapsed is null then '0' else _step end, step = _step, stepped_at = app.now();
    return true;
end;
$$;
