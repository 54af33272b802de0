-- Add an endpoint of a platform, unless it has _most of them: then false. Its secret is sealed already (S5). Two at once for
-- one platform wait for each other, so that both are counted. _most is null for processes of earlier releases.
create function app.make_endpoint(
    _id uuid, _platform text, _url text, _authority text, _events text[], _format app.webhook_format,
    _description text, _secret bytea, _timeout_seconds integer, _retries integer, _by text, _most integer default null,
    _correlation_id text default null
) returns boolean language plpgsql as $$
begin
    perform app.assert_read_committed();
    perform app.set_platform_filter(_platform);
    perform pg_advisory_xact_lock(hashtextextended('anabranch endpoints of ' || _platform, 0));
    if (select count(*) >= _most from app.webhook_endpoints e where e.listed and e.platform = _platform) then
        return false;
    end if;
    insert into app.webhook_endpoints (id, platform, listed, url, authority, events, format, description, active, secret,
                                       timeout_seconds, retries, made_at, made_by, changed_at)
    values (_id, _platform, true, _url, _authority, _events, _format, _description, true, _secret, _timeout_seconds,
            _retries, app.now(), _by, app.now());
    perform app.audit_change(_platform, _by, 'webhook.added', jsonb_build_object('endpoint', _id, 'host', _authority),
                              _correlation_id);
    return true;
end;
$$;
