-- Write a line of the audit (P7) of what belongs to a platform and is no release: an endpoint, a key, a collection. Processes
-- of earlier releases don't say who acts, and nothing is written.
create function app.audit_change(_platform text, _actor text, _action text, _data jsonb, _correlation_id text)
returns void language plpgsql as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
begin
    if _actor is null then
        return;
    end if;
    perform app.set_platform_filter(_platform);
    perform app.record(_platform, _actor, _action, null, null, null, null, _data, _correlation_id);
    perform app.set_platform_filter(_before);
end;
$$;
