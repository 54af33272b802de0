-- Limit what the rest of the transaction sees and changes of the tables of platforms to one platform's rows; `*`: all. Every
-- function that is called from outside and uses these tables begins with it: without the setting there are no rows.
create function app.set_platform_filter(_platform text) returns void language plpgsql stable as $$
begin
    perform set_config('anabranch.platform', _platform, true);
end;
$$;
