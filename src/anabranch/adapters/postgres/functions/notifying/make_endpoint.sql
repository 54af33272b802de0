-- Add an endpoint of a platform. Its secret is sealed already (S5).
create function app.make_endpoint(
    _id uuid, _platform text, _url text, _authority text, _events text[], _format app.webhook_format,
    _description text, _secret bytea, _timeout_seconds integer, _retries integer, _by text
) returns void language sql as $$
    select app.see(_platform);
    insert into app.webhook_endpoints (id, platform, listed, url, authority, events, format, description, active, secret,
                                       timeout_seconds, retries, made_at, made_by, changed_at)
    values (_id, _platform, true, _url, _authority, _events, _format, _description, true, _secret, _timeout_seconds,
            _retries, app.now(), _by, app.now());
$$;
