-- Record calls: each goes to the log, and ends its delivery or makes it due again (P9). Only the session that took a delivery
-- can end it. Failures in a row open the endpoint's breaker; calls that were under way then don't open it further. One that
-- is gone is disabled. Returns how many deliveries were the session's.
-- _calls: [{id, outcome: delivered | failed | gone, seconds, status, error, response, retry_after}, …]
create function app.end_deliveries(_session bigint, _calls jsonb) returns integer language plpgsql as $$
declare
    _ours bigint[];
    _ended bigint[];
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter('*');
    perform app.lock_deliveries();
    select array_agg(d.id) into _ours
      from jsonb_to_recordset(_calls) as c(id bigint)
      join app.webhook_deliveries d on d.id = c.id and d.session = _session;
    if _ours is null then
        return 0;
    end if;
    insert into app.webhook_attempts (delivery, platform, attempt, at, seconds, status, error, response)
    select d.id, d.platform, d.attempts + 1, app.now() - make_interval(secs => c.seconds), c.seconds, c.status, c.error, c.response
      from jsonb_to_recordset(_calls) as c(id bigint, seconds real, status integer, error text, response text)
      join app.webhook_deliveries d on d.id = c.id
     where d.id = any(_ours);
    with ends as (
        update app.webhook_deliveries d
           set session = null, attempts = d.attempts + 1, tries = d.tries + 1, status = c.status, error = c.error,
               state = case when c.outcome = 'delivered' then 'delivered'
                            when c.outcome = 'gone' or d.tries >= e.retries then 'dead'
                            else 'pending' end::app.delivery_state,
               ended_at = case when c.outcome <> 'failed' or d.tries >= e.retries then app.now() end,
               due_at = case when c.outcome <> 'failed' or d.tries >= e.retries then d.due_at
                             else app.now() + greatest(app.webhook_delay(d.tries + 1),
                                                       make_interval(secs => coalesce(c.retry_after, 0))) end
          from jsonb_to_recordset(_calls) as c(
                   id bigint, outcome text, status integer, error text, retry_after double precision)
          join app.webhook_deliveries x on x.id = c.id
          join app.webhook_endpoints e on e.id = x.endpoint
         where d.id = c.id and d.id = any(_ours)
        returning d.id, d.endpoint, d.state, c.outcome, c.error),
    by_endpoint as (
        select n.endpoint, bool_or(n.outcome = 'delivered') as works, bool_or(n.outcome = 'gone') as gone,
               count(*)::integer as calls
          from ends n group by n.endpoint),
    noted as (
        update app.webhook_endpoints e
           set active = e.active and not n.gone,
               disabled_reason = case when n.gone then 'it answered 410 Gone' else e.disabled_reason end,
               failures = case when n.works then 0 else least(e.failures + n.calls, greatest(5, e.failures + 1)) end,
               open_until = case when not n.works and e.failures + n.calls >= 5 then app.now() + least(
                   interval '30 s' * 2 ^ least(greatest(e.failures - 4, 0), 10), interval '15 min') end
          from by_endpoint n
         where e.id = n.endpoint
           and (n.gone or n.works and e.failures > 0 or not n.works and (e.open_until is null or e.open_until <= app.now())))
    select array_agg(n.id) into _ended from ends n where n.state <> 'pending';
    if _ended is not null then
        perform app.ready_next(_ended);
    end if;
    return cardinality(_ours);
end;
$$;
