-- Take deliveries that are due, for a process that calls their endpoints: at most _limit, _each of them for one endpoint at a
-- time and twice as many for one host, but one where the last call failed. Platforms are served in turn, and one gets at most
-- three times as many calls of this session as are left for others. What dead sessions have is taken back, and what this
-- session has but not in hand: its reply was lost. Of an endpoint and a subject only the first that is open is ready
-- (P9); what could not be tried for a day is a dead letter. A dead session gets an error (AN001).
create function app.take_deliveries(_session bigint, _in_hand bigint[], _limit integer, _each integer)
returns table (
    id bigint, endpoint uuid, url text, hosts text[], secrets bytea[], format app.webhook_format,
    timeout_seconds integer, message uuid, event text, subject text, data jsonb, correlation_id text,
    made_at timestamptz
) language plpgsql as $$
declare
    _ended bigint[];
    _taken bigint[];
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter('*');
    if not exists (select from app.sessions s where s.id = _session and s.dead_at is null) then
        raise exception 'session % is gone', _session using errcode = 'AN001';
    end if;
    if not exists (select from app.webhook_deliveries d where d.state = 'pending')
       and not exists (select from app.webhook_deliveries d where d.session is not null) then
        return;
    end if;
    perform app.lock_deliveries();
    update app.webhook_deliveries d set session = null
     where d.session is not null
       and (d.session = _session and d.id <> all(_in_hand)
            or not exists (select from app.sessions s where s.id = d.session and s.dead_at is null));
    with expired as (
        update app.webhook_deliveries d
           set state = 'dead', ended_at = app.now(), error = coalesce(d.error, 'it could not be tried for a day')
          from app.webhook_endpoints e
         where e.id = d.endpoint and d.state = 'pending' and d.give_up_at <= app.now() and d.session is null
           and (not e.active or e.open_until > app.now())
        returning d.id)
    select array_agg(x.id) into _ended from expired x;
    if _ended is not null then
        perform app.ready_next(_ended);
    end if;
    update app.webhook_deliveries d
       set ready = not exists (
               select from app.webhook_deliveries b
                where b.endpoint = d.endpoint and b.subject = d.subject and b.state = 'pending'
                  and (b.ready is not null or b.id < d.id))
      from (select n.id from app.webhook_deliveries n
             where n.state = 'pending' and n.ready is null order by n.id limit 1000) fresh
     where d.id = fresh.id;
    with recursive waiting(endpoint) as (
        (select d.endpoint from app.webhook_deliveries d
          where d.state = 'pending' and d.ready and d.session is null order by d.endpoint limit 1)
        union all
        select (select d.endpoint from app.webhook_deliveries d
                 where d.state = 'pending' and d.ready and d.session is null and d.endpoint > w.endpoint
                 order by d.endpoint limit 1)
          from waiting w where w.endpoint is not null),
    called as (
        select e.id, e.platform, e.authority, count(*) as calls, count(*) filter (where d.session = _session) as ours
          from app.webhook_deliveries d join app.webhook_endpoints e on e.id = d.endpoint
         where d.session is not null group by e.id),
    due as (
        select d.id, d.due_at, e.platform,
               row_number() over (partition by e.platform, e.authority order by d.due_at, d.id)
               + (select coalesce(sum(c.calls), 0) from called c
                   where c.platform = e.platform and c.authority = e.authority) as place
          from waiting w
          join app.webhook_endpoints e on e.id = w.endpoint and e.active
           and (e.open_until is null or e.open_until <= app.now())
         cross join lateral (
            select x.id, x.due_at from app.webhook_deliveries x
             where x.endpoint = e.id and x.state = 'pending' and x.ready and x.session is null and x.due_at <= app.now()
             order by x.due_at, x.id
             limit greatest(0, case when e.failures > 0 then 1 else _each end
                               - coalesce((select c.calls from called c where c.id = e.id), 0))) d),
    turns as (
        select u.id, u.due_at,
               row_number() over (partition by u.platform order by u.due_at, u.id)
               + coalesce((select sum(c.ours) from called c where c.platform = u.platform), 0) as turn
          from due u where u.place <= 2 * _each),
    ranked as (
        select t.id, t.turn, row_number() over (order by t.turn, t.due_at, t.id) as rank from turns t)
    select array_agg(r.id) into _taken
      from ranked r where r.rank <= _limit and r.turn <= greatest(1, 3 * (_limit - r.rank));
    update app.webhook_deliveries d set session = _session where d.id = any(_taken);
    return query
    select d.id, e.id, e.url, app.callback_hosts(e.platform),
           case when e.former_until > app.now() then array[e.secret, e.former_secret] else array[e.secret] end, e.format,
           e.timeout_seconds, m.id, m.event, m.subject, m.data, m.correlation_id, m.made_at
      from app.webhook_deliveries d
      join app.webhook_endpoints e on e.id = d.endpoint
      join app.webhook_messages m on m.id = d.message
     where d.id = any(_taken) order by d.id;
end;
$$;
