-- Which handlers a session has in which major version, like raster.create_cog@2; nothing where no lane that could be claimed asks
-- for a version, which costs a look into an empty index.
create function app.list_offers(_session bigint) returns text[] language plpgsql stable as $$
begin
    if not exists (select from app.lanes l where l.claimable and l.handler_version is not null) then
        return '{}';
    end if;
    return array(
        select v.key || '@' || substring(v.value from '^[0-9]+')::numeric
          from app.session_versions s cross join lateral jsonb_each_text(s.versions) v where s.session = _session);
end;
$$;
