-- Who has a name in schema geo, in words for a platform: what that may not see is not named.
create function app.describe_holder(_platform text, _kind text, _key text) returns text language sql stable as $$
    select case when app.may_read(_platform, split_part(_key, '/', 1), false) then format('%s %s', _kind, _key)
                else 'another platform' end;
$$;
