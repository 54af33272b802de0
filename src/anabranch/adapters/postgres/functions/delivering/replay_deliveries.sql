-- Make deliveries that have ended due again, under the same message id: one by its id, or the dead letters that fit, the
-- oldest first. Their retries begin again, and so do the calls of a callback that did not want them; an endpoint that is not
-- active is left out. Returns their ids.
create function app.replay_deliveries(
    _platform text, _id bigint, _endpoint uuid, _subject text, _event text, _limit integer
) returns bigint[] language plpgsql as $$
declare
    _again bigint[];
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter(coalesce(_platform, '*'));
    perform app.lock_deliveries();
    select array_agg(x.id) into _again
      from (select d.id from app.webhook_deliveries d
              join app.webhook_endpoints e on e.id = d.endpoint
              join app.webhook_messages m on m.id = d.message
             where (e.active or not e.listed)
               and case when _id is null then d.state = 'dead' else d.id = _id and d.state <> 'pending' end
               and (_platform is null or e.platform = _platform) and (_endpoint is null or d.endpoint = _endpoint)
               and (_subject is null or d.subject = _subject) and (_event is null or m.event = _event)
             order by d.id limit _limit) x;
    update app.webhook_deliveries d
       set state = 'pending', ready = null, tries = 0, due_at = app.now(), give_up_at = app.now() + interval '1 day',
           ended_at = null
     where d.id = any(_again);
    if _again is not null then
        update app.webhook_endpoints e
           set active = true, disabled_reason = null, failures = 0, open_until = null
         where not e.active and e.id in (select d.endpoint from app.webhook_deliveries d where d.id = any(_again));
        perform app.wake_deliverer();
    end if;
    return coalesce(_again, '{}');
end;
$$;
