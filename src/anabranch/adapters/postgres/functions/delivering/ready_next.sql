-- Make the next delivery ready for each endpoint and subject of these, which have ended. The caller holds
-- app.lock_deliveries.
create function app.ready_next(_ended bigint[]) returns void language sql as $$
    update app.webhook_deliveries d set ready = true
      from (select distinct x.endpoint, x.subject from app.webhook_deliveries x where x.id = any(_ended)) s
     where d.state = 'pending' and not d.ready
       and d.id = (select min(o.id) from app.webhook_deliveries o
                    where o.endpoint = s.endpoint and o.subject = s.subject and o.state = 'pending')
       and not exists (select from app.webhook_deliveries o
                        where o.endpoint = s.endpoint and o.subject = s.subject and o.state = 'pending' and o.ready);
$$;
