-- Remove some deliveries that ended longer ago than _age, with their messages and log, and callbacks that nothing uses any
-- more (O5). Returns how many rows went.
create function app.remove_deliveries(_age interval, _batch integer) returns integer language plpgsql as $$
declare
    _gone integer;
    _messages uuid[];
    _unused integer;
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter('*');
    with old as (
        select d.id from app.webhook_deliveries d where d.ended_at < app.now() - _age order by d.ended_at limit _batch
           for update skip locked),
    removed as (
        delete from app.webhook_deliveries d using old where d.id = old.id returning d.message)
    select count(*)::integer, array_agg(distinct r.message) into _gone, _messages from removed r;
    delete from app.webhook_messages m
     where m.id = any(_messages) and not exists (select from app.webhook_deliveries d where d.message = m.id);
    delete from app.webhook_endpoints e
     where e.id in (select x.id from app.webhook_endpoints x
                     where not x.listed and x.changed_at < app.now() - _age
                       and not exists (select from app.webhook_callbacks c where c.endpoint = x.id)
                       and not exists (select from app.webhook_deliveries d where d.endpoint = x.id)
                     limit _batch for update skip locked);
    get diagnostics _unused = row_count;
    return _gone + _unused;
end;
$$;
