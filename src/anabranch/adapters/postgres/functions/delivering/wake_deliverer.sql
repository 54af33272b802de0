-- Notify the process that waits for deliveries when this transaction is committed; that process holds the lock while it waits,
-- and nothing is sent while none does.
create function app.wake_deliverer() returns void language plpgsql as $$
begin
    if not pg_try_advisory_xact_lock_shared(hashtextextended('anabranch webhooks doorbell', 0)) then
        perform pg_notify('anabranch_webhooks', '');
    end if;
end;
$$;
