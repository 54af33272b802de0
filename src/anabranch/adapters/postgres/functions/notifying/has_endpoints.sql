-- Whether a platform wants to be notified.
create function app.has_endpoints(_platform text) returns boolean language plpgsql stable as $$
declare
    _before constant text := coalesce(current_setting('anabranch.platform', true), '');
    _found boolean;
begin
    perform app.set_platform_filter(_platform);
    _found := exists (select from app.webhook_endpoints e where e.listed and e.active and e.platform = _platform);
    perform app.set_platform_filter(_before);
    return _found;
end;
$$;
