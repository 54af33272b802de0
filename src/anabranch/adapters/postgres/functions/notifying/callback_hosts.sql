-- The hosts that a platform's endpoints may have though their addresses are private or their ports unusual.
create function app.callback_hosts(_platform text) returns text[] language plpgsql stable as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _hosts text[];
begin
    perform app.set_platform_filter(_platform);
    select p.callback_hosts into _hosts from app.platforms p where p.id = _platform;
    perform app.set_platform_filter(_before);
    return coalesce(_hosts, '{}');
end;
$$;
