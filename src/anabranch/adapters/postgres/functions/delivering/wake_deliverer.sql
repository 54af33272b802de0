-- Ring the doorbell of who waits for deliveries, when this transaction is committed.
create function app.wake_deliverer() returns void language plpgsql as $$
begin
    if not pg_try_advisory_xact_lock_shared(hashtextextended('anabranch webhooks doorbell', 0)) then
        perform pg_notify('anabranch_webhooks', '');
    end if;
end;
$$;
